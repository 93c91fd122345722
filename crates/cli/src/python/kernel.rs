//! Names of a kernel's operands, from the signature of its Python function.

use octile_mosaic::{Attr, Function, SourceFrame, Type};
use serde::Serialize;

use super::{PythonPlace, PythonSources, file::PythonFile, file::PythonFunction};

/// What an argument of a kernel is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    /// An index of the grid.
    Grid,
    /// A scalar-prefetch operand.
    Prefetch,
    /// An input, or a result where the number of results is not known.
    Operand,
    /// An input.
    Input,
    /// A result.
    Output,
    /// Scratch memory.
    Scratch,
}

/// An argument of a kernel.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Operand {
    /// Its name: that of the Python parameter where it is certain, else that of the Mosaic text.
    pub name: String,
    /// Whether it is the name of a Python parameter.
    pub is_python_name: bool,
    /// What it is.
    role: Role,
    /// Its number among those of its role, from 0.
    number: usize,
    /// Its Mosaic type.
    #[serde(rename = "type")]
    ty: String,
}

impl Operand {
    /// The operand in words: `scratch 4, memref<2x2x!tpu.dma_semaphore>`.
    pub(crate) fn description(&self) -> String {
        let role = match self.role {
            Role::Grid => "grid index",
            Role::Prefetch => "scalar-prefetch operand",
            Role::Operand => "operand",
            Role::Input => "input",
            Role::Output => "output",
            Role::Scratch => "scratch",
        };
        format!("{role} {}, {}", self.number, self.ty)
    }
}

/// The arguments of the kernel `function`, which returns `results` of them where this is known.
pub(crate) fn operand_names(
    sources: &PythonSources,
    function: &Function,
    results: Option<usize>,
) -> Vec<Operand> {
    let types: Vec<&Type> = function.body.arguments.iter().map(|&value| function.ty(value)).collect();
    let references = types.iter().filter(|ty| matches!(ty, Type::MemRef(_))).count();
    let grid = types.len() - references;
    let names = sources.parameter_names(function, references).unwrap_or_default();
    let roles = roles(function, references, results);
    let mut operands: Vec<Operand> = Vec::with_capacity(types.len());
    for (number, ty) in types.iter().enumerate() {
        let role = number.checked_sub(grid).map_or(Role::Grid, |number| roles[number]);
        let name = number.checked_sub(grid).and_then(|number| names.get(number));
        let value = function.body.arguments[number];
        let written = function.values.get(value.index()).and_then(|value| value.name.as_deref());
        let written = written.map_or_else(|| format!("arg{number}"), str::to_owned);
        operands.push(Operand {
            is_python_name: name.is_some(),
            name: name.cloned().unwrap_or(written),
            role,
            number: operands.iter().filter(|operand| operand.role == role).count(),
            ty: ty.to_string(),
        });
    }
    operands
}

/// Roles of the references of a kernel, in order.
fn roles(function: &Function, references: usize, results: Option<usize>) -> Vec<Role> {
    let count = |name: &str| match function.attributes.get(name) {
        Some(Attr::Integer(count, _)) => usize::try_from(*count).unwrap_or(0),
        _ => 0,
    };
    let (prefetched, scratch) = (count("scalar_prefetch"), count("scratch_operands"));
    let first_scratch = references.saturating_sub(scratch);
    let first_output = results.map(|results| first_scratch.saturating_sub(results));
    let role = |number: usize| match first_output {
        _ if number < prefetched => Role::Prefetch,
        _ if number >= first_scratch => Role::Scratch,
        None => Role::Operand,
        Some(first) if number < first => Role::Input,
        Some(_) => Role::Output,
    };
    (0..references).map(role).collect()
}

impl PythonSources {
    /// Names of the parameters that take the `count` references of a kernel, where they are certain.
    fn parameter_names(&self, function: &Function, count: usize) -> Option<Vec<String>> {
        let lines = self.own_lines(function);
        let first = lines.first()?;
        if lines.iter().any(|line| line.file != first.file) {
            return None;
        }
        let file = self.found(&first.file)?.file;
        let kernel = kernel_function(&file, &lines)?;
        // A method's first parameter is its object.
        let mut signature = kernel.signature.clone();
        if signature.positional.first().is_some_and(|parameter| ["self", "cls"].contains(&&*parameter.name)) {
            signature.positional.remove(0);
        }
        let bound: Vec<&str> =
            file.codes().filter_map(|code| partial_arguments(code, &kernel.name)).collect();
        if !bound.iter().all(|arguments| is_keyword(arguments)) {
            return None;
        }
        let names =
            signature.names(count, |name| bound.iter().any(|arguments| has_keyword(arguments, name)))?;
        Some(names.into_iter().map(str::to_owned).collect())
    }

    /// The line that defines a kernel; its first line, if the file is not there.
    pub(crate) fn definition(&self, function: &Function) -> Option<PythonPlace> {
        let lines = self.own_lines(function);
        let first = lines.first()?;
        let first = lines.iter().filter(|line| line.file == first.file).min_by_key(|line| line.line)?;
        let found = self.found(&first.file);
        let kernel = found.as_ref().and_then(|found| kernel_function(&found.file, &lines));
        let line = kernel.map_or(first.line, |kernel| kernel.first);
        Some(PythonPlace { line: self.single_line(&first.file, line), helpers: Vec::new() })
    }

    /// Lines of a kernel. Operations in loops and branches come from functions of their own, perhaps in other
    /// files.
    fn own_lines<'f>(&self, function: &'f Function) -> Vec<&'f SourceFrame> {
        let ops = function.body.ops.iter();
        ops.filter_map(|op| self.outermost(op.source.as_deref().unwrap_or_default())).collect()
    }

    /// The outermost call inside the kernel.
    fn outermost<'f>(&self, frames: &'f [SourceFrame]) -> Option<&'f SourceFrame> {
        super::stack::inside(frames, &self.callers).last().copied()
    }

    /// The innermost call outside JAX.
    pub(super) fn innermost<'f>(&self, frames: &'f [SourceFrame]) -> Option<&'f SourceFrame> {
        super::stack::inside(frames, &self.callers).first().copied()
    }
}

/// The innermost function that contains all lines, if one of them says that it is in it.
fn kernel_function<'f>(file: &'f PythonFile, lines: &[&SourceFrame]) -> Option<&'f PythonFunction> {
    let mut shared = file.enclosing(lines.first()?.line);
    for line in lines {
        let enclosing = file.enclosing(line.line);
        let same = shared.iter().zip(&enclosing).take_while(|(a, b)| a.first == b.first).count();
        shared.truncate(same);
    }
    let kernel = shared.pop()?;
    let is_named = |line: &&SourceFrame| {
        let function = line.function.as_deref();
        function.is_none_or(|function| function.rsplit('.').next() == Some(&kernel.name))
    };
    lines.iter().any(is_named).then_some(kernel)
}

/// What `partial(kernel, ...)` binds, in the code of a statement.
fn partial_arguments<'c>(code: &'c str, kernel: &str) -> Option<&'c str> {
    code.match_indices("partial(").find_map(|(at, found)| {
        let arguments = code[at + found.len()..].trim_start().strip_prefix(kernel)?;
        arguments.trim_start().strip_prefix(',').map(str::trim_start)
    })
}

/// Whether arguments begin with `name=` or `**`, so that none is passed by position.
fn is_keyword(arguments: &str) -> bool {
    let name = arguments.trim_start_matches(|c: char| c.is_alphanumeric() || c == '_').trim_start();
    let is_named = name.strip_prefix('=').is_some_and(|rest| !rest.starts_with('='));
    is_named || arguments.starts_with("**") || arguments.starts_with(')')
}

/// Whether `name=` is among the arguments.
fn has_keyword(arguments: &str, name: &str) -> bool {
    arguments.match_indices(name).any(|(at, _)| {
        let before = arguments[..at].trim_end();
        let rest = arguments[at + name.len()..].trim_start();
        (before.is_empty() || before.ends_with(',')) && rest.starts_with('=') && !rest.starts_with("==")
    })
}

#[cfg(test)]
mod tests {
    use octile_mosaic::parse;

    use super::*;

    const KERNEL: &str = "
func.func @k(%arg0: i32, %arg1: memref<8xf32>, %arg2: memref<8xf32>, %arg3: memref<!tpu.dma_semaphore>)
    attributes {scratch_operands = 1 : i64} {
  %0 = arith.constant 0 : i32
  %1 = arith.constant 1 : i32
  return
}
";

    /// Names of the operands of a kernel whose operations are on these lines of this file.
    fn names(python: &str, lines: [(u32, &str); 2]) -> Vec<String> {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("k.py");
        std::fs::write(&path, python).expect("written");
        let mut module = parse(KERNEL).expect("a kernel");
        let function = &mut module.functions[0];
        for (op, (line, name)) in function.body.ops.iter_mut().zip(lines) {
            let file = path.to_string_lossy().as_ref().into();
            op.source = Some([SourceFrame { file, line, column: 1, function: Some(name.into()) }].into());
        }
        let sources = PythonSources::new(&folder.path().join("k.mlir"), []);
        let operands = operand_names(&sources, function, Some(1));
        operands.into_iter().map(|operand| operand.name).collect()
    }

    #[test]
    fn operands_have_the_names_of_the_parameters() {
        let python = "def kernel(x, o, sem, *, n):\n  a = 1\n  def body(k):\n    b = 1\n";
        assert_eq!(names(python, [(2, "kernel"), (4, "kernel.<locals>.body")]), ["arg0", "x", "o", "sem"]);
        let python =
            "def mm(x):\n  def kernel(x, o, sem, n):\n    a = 1\n    b = 1\n  partial(kernel, n=4)\n";
        assert_eq!(names(python, [(3, "kernel"), (4, "kernel")]), ["arg0", "x", "o", "sem"]);
        let python = "class A:\n  def kernel(self, x, *refs):\n    a = 1\n    b = 1\n";
        assert_eq!(names(python, [(3, "kernel"), (4, "kernel")]), ["arg0", "x", "arg2", "arg3"]);
    }

    #[test]
    fn uncertain_names_are_left_as_they_are() {
        let as_written = ["arg0", "arg1", "arg2", "arg3"];
        for python in [
            "def kernel(x, o):\n  a = 1\n  b = 1\n",
            "def kernel(n, x, o, sem):\n  a = 1\n  b = 1\nf = partial(kernel, 4)\n",
            "def kernel(x, o, sem, n):\n  a = 1\n  b = 1\n",
            "def kernel(x, o, sem=1, n=2):\n  a = 1\n  b = 1\nf = partial(kernel, 4)\n",
            "a = 1\nb = 1\nc = 1\n",
        ] {
            assert_eq!(names(python, [(2, "kernel"), (3, "kernel")]), as_written, "{python}");
        }
        let other = "def other(x, o, sem):\n  a = 1\n  b = 1\n";
        assert_eq!(names(other, [(2, "kernel"), (3, "kernel")]), as_written);
    }

    #[test]
    fn an_operand_says_what_it_is() {
        let module = parse(KERNEL).expect("a kernel");
        let sources = PythonSources::default();
        let operands = operand_names(&sources, &module.functions[0], Some(1));
        let described: Vec<String> = operands.iter().map(Operand::description).collect();
        assert_eq!(
            described,
            [
                "grid index 0, i32",
                "input 0, memref<8xf32>",
                "output 0, memref<8xf32>",
                "scratch 0, memref<!tpu.dma_semaphore>"
            ]
        );
    }
}
