//! Mosaic text that is no module of the parser's, read line by line: the operations that the checks ask about are kept,
//! the rest is skipped.

use std::collections::HashMap;

use super::{Argument, ArgumentRole, DmaOp, MatmulOp, MosaicScan, TensorType, View};
use crate::source::{Damage, LineIndex, Place, Span};

/// Reads a kernel.
pub fn scan(text: &str) -> MosaicScan {
    let mut scanner = Scanner { lines: LineIndex::new(text), ..Scanner::default() };
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        scanner.offset = offset;
        scanner.line(line);
        offset += line.len();
    }
    let mut scan = scanner.scan;
    if scan.kernel.is_empty() {
        let what = "there is no Mosaic kernel in this file".to_owned();
        scan.damage.push(Damage { place: Place { line: 1, column: 1 }, what });
    } else if text.matches('{').count() != text.matches('}').count() {
        let place = scanner.lines.place(Span::new(text.len(), text.len()).start);
        scan.damage.push(Damage { place, what: "braces do not match: the file is cut off".to_owned() });
    }
    scan
}

#[derive(Default)]
struct Scanner<'a> {
    lines: LineIndex,
    offset: usize,
    /// Whether the kernel itself has been seen; index maps follow it.
    past_kernel: bool,
    constants: HashMap<&'a str, &'a str>,
    views: HashMap<&'a str, View>,
    scan: MosaicScan,
}

impl<'a> Scanner<'a> {
    fn place(&self, line: &str) -> Place {
        let column = line.len() - line.trim_start().len();
        self.lines.place(Span::new(self.offset + column, self.offset + column).start)
    }

    fn line(&mut self, line: &'a str) {
        let place = self.place(line);
        let text = line.trim();
        if text.starts_with("func.func") {
            if !self.past_kernel {
                self.kernel(text, place);
            }
            self.past_kernel = true;
            return;
        }
        let (result, operation) = match text.split_once(" = ") {
            Some((result, operation)) if result.starts_with('%') => (result.trim(), operation),
            _ => ("", text),
        };
        let (name, rest) = operation.split_once(' ').unwrap_or((operation, ""));
        match name.trim_matches('"') {
            "arith.constant" => {
                let value = rest.split(" :").next().unwrap_or_default().trim();
                self.constants.insert(result, value);
            }
            "tpu.memref_slice" | "memref.subview" => self.slice(result, rest),
            "tpu.memref_squeeze" | "tpu.memref_reshape" | "tpu.memref_bitcast" | "memref.cast" => {
                self.alias(result, rest);
            }
            "tpu.enqueue_dma" | "tpu.wait_dma2" | "tpu.wait_dma" => self.dma(name, rest, place),
            "tpu.matmul" => self.matmul(rest, place),
            _ => {}
        }
    }

    /// `func.func @name(%arg0: i32, %arg1: memref<..>) attributes {iteration_bounds = .., window_params = [..]} {`
    fn kernel(&mut self, text: &str, place: Place) {
        let Some((name, rest)) = text.split_once('@').and_then(|(_, rest)| rest.split_once('(')) else {
            self.scan.damage.push(Damage { place, what: "a kernel name is expected here".to_owned() });
            return;
        };
        self.scan.kernel = name.to_owned();
        let (arguments, attributes) = rest.split_once(") attributes").unwrap_or((rest, ""));
        let number = |key: &str| {
            let after = attributes.split_once(key)?.1.trim_start_matches([' ', '=']);
            after.split([' ', ',', '}']).next()?.parse::<usize>().ok()
        };
        let bounds = attributes.split_once("iteration_bounds = array<i64:").map_or("", |(_, after)| after);
        let bounds = bounds.split('>').next().unwrap_or_default();
        self.scan.iteration_bounds = bounds.split(',').filter_map(|n| n.trim().parse().ok()).collect();
        // Each argument begins behind its `%`.
        let starts = arguments.match_indices('%').map(|(at, _)| at + 1);
        let offset = text.len() - rest.len();
        let memory: Vec<_> = starts
            .filter_map(|at| {
                let (name, memory) = argument(arguments.get(at..)?)?;
                let column = place.column + u32::try_from(offset + at - 1).ok()?;
                Some((name, memory, Place { column, ..place }))
            })
            .collect();
        let prefetched = number("scalar_prefetch").unwrap_or(0);
        let scratch = number("scratch_operands").unwrap_or(0);
        let first_scratch = memory.len().saturating_sub(scratch);
        for (index, (name, memory, place)) in memory.into_iter().enumerate() {
            let role = ArgumentRole::of(index, prefetched, first_scratch, &memory.space);
            self.scan.arguments.push(Argument { name, memory, role, place });
        }
    }

    /// `%arg8[%4, %c0] : memref<..> -> memref<..>`
    fn slice(&mut self, result: &'a str, rest: &'a str) {
        let Some((base, after)) = rest.split_once('[') else { return };
        let (index, types) = after.split_once(']').unwrap_or((after, ""));
        let index = index.split(',').map(|part| {
            let part = part.trim();
            self.constants.get(part).copied().unwrap_or(part).to_owned()
        });
        let index: Vec<_> = index.collect();
        let memory = types.rsplit("->").next().and_then(tensor);
        let Some(memory) = memory else { return };
        let base = base.trim();
        let view = match self.views.get(base) {
            // A slice of a slice: the first one says which buffer.
            Some(view) => View { memory, ..view.clone() },
            None => View { root: base.to_owned(), index, memory },
        };
        self.views.insert(result, view);
    }

    /// `%83 : memref<..> -> memref<..>`
    fn alias(&mut self, result: &'a str, rest: &'a str) {
        let base = rest.split([' ', ':']).next().unwrap_or_default();
        let memory = rest.rsplit("->").next().and_then(tensor);
        if let Some((view, memory)) = self.views.get(base).zip(memory) {
            let view = View { memory, ..view.clone() };
            self.views.insert(result, view);
        }
    }

    /// `source(%85 : memref<..>) target(%84 : memref<..>) target_semaphore(%82 : memref<..>)`
    fn dma(&mut self, name: &str, rest: &str, place: Place) {
        let waits = name.contains("wait");
        let end = |keys: [&str; 2]| keys.into_iter().find_map(|key| self.view(rest, key));
        let op = DmaOp {
            waits,
            source: end([" source(", " src("]),
            target: end([" target(", " dst("]),
            semaphore: end([" target_semaphore(", " semaphore("]),
            place,
        };
        if op.semaphore.is_none() {
            let what = "this copy names no semaphore".to_owned();
            self.scan.damage.push(Damage { place, what });
        }
        self.scan.dmas.push(op);
    }

    fn view(&self, rest: &str, key: &str) -> Option<View> {
        let padded = format!(" {rest}");
        let (name, after) = padded.split_once(key)?.1.split_once(" : ")?;
        let memory = tensor(after)?;
        Some(match self.views.get(name) {
            Some(view) => View { memory, ..view.clone() },
            None => View { root: name.to_owned(), index: Vec::new(), memory },
        })
    }

    /// `%57, %60, %cst {..} : vector<..>, vector<..>, vector<..> -> vector<..>`
    fn matmul(&mut self, rest: &str, place: Place) {
        match product_types(rest) {
            Some([lhs, rhs, accumulator]) => {
                self.scan.matmuls.push(MatmulOp { lhs, rhs, accumulator, place });
            }
            None => {
                let what = "this multiplication does not name the types of its operands".to_owned();
                self.scan.damage.push(Damage { place, what });
            }
        }
    }
}

/// The types of both operands and of the accumulator, as the line of a multiplication spells them.
pub fn product_types(line: &str) -> Option<[TensorType; 3]> {
    let (_, types) = line.rsplit_once("} : ").or_else(|| line.rsplit_once(" : "))?;
    let mut operands = types.split("vector<").skip(1).filter_map(vector);
    Some([operands.next()?, operands.next()?, operands.next()?])
}

/// `arg3: memref<512x512xf8E4M3FN, #tpu.memory_space<hbm>>, ` without its `%`.
fn argument(text: &str) -> Option<(String, TensorType)> {
    let (name, memory) = text.split_once(':')?;
    let memory = memory.trim();
    memory.starts_with("memref<").then(|| tensor(memory)).flatten().map(|memory| (format!("%{name}"), memory))
}

/// The first `memref<..>` of a text.
fn tensor(text: &str) -> Option<TensorType> {
    let inside = text.split_once("memref<")?.1;
    let space = inside
        .split_once("memory_space<")
        .map_or("", |(_, after)| after.split('>').next().unwrap_or_default());
    let shape = inside.split([',', '>']).next()?;
    let mut tensor = vector(shape)?;
    tensor.space = space.to_owned();
    Some(tensor)
}

/// `512x512xf8E4M3FN`, up to a `>` or a `,`.
fn vector(text: &str) -> Option<TensorType> {
    let mut rest = text.split(['>', ',']).next()?.trim();
    let mut dims = Vec::new();
    while let Some((dim, after)) = rest.split_once('x') {
        let Ok(dim) = dim.parse() else { break };
        dims.push(dim);
        rest = after;
    }
    (!rest.is_empty()).then(|| TensorType { dims, element: rest.to_owned(), space: String::new() })
}
