//! Compiles the scalar part of a listing, which decides control flow and DMAs, for execution.

use std::collections::{HashMap, HashSet};

use super::{
    Args, Listing, Operand, Predicate, Slot,
    extent::Memory,
    instruction::{
        Action, Arithmetic, Comparison, Compute, Condition, DmaOperand, DmaStart, Expr, Footprint,
        Instruction, LoadStore, Logic, Register, Sublanes, Truth,
    },
};

/// Base of pointers, above all 32-bit integers: buffer `n` is at `(n + 1) << 40`.
const BUFFER_SHIFT: u32 = 40;

/// Mask of all sublanes of a vector register.
const ALL_SUBLANES: u32 = 0xff;

/// The compiler's comment where it reads the core index.
pub(super) const CORE_ID: &str = "/* core id */";

/// Buffer and offset of an address.
pub(super) fn buffer_of(address: i64) -> (i64, i64) {
    let offset = address & ((1 << BUFFER_SHIFT) - 1);
    (address - offset, offset)
}

/// The executable part of a listing, bundle by bundle.
#[derive(Clone, Debug, Default)]
pub(super) struct Program {
    pub bundles: Vec<Vec<Instruction>>,
    /// Loads and stores of on-chip memory, bundle by bundle.
    pub accesses: Vec<Vec<LoadStore>>,
    /// Whether a bundle starts the matrix units.
    pub multiplies: Vec<bool>,
    /// Bytes of a DMA granule.
    pub granule_bytes: i64,
    /// The first predicate that no instruction writes, with the bundle that reads it.
    pub undefined: Option<(usize, String)>,
    pub registers: usize,
    /// Names of DMA operations, by kind.
    pub dma_kinds: Vec<String>,
    buffers: Vec<String>,
}

impl Program {
    /// Compiles a listing. Branch targets are resolved to positions.
    pub(super) fn compile(listing: &Listing<'_>) -> Self {
        let mut compiler = Compiler {
            listing,
            names: HashMap::new(),
            buffers: HashMap::new(),
            kinds: HashMap::new(),
            addresses: listing
                .bundles()
                .iter()
                .enumerate()
                .map(|(at, bundle)| (bundle.address, at))
                .collect(),
            regions: HashMap::new(),
            divisions: HashMap::new(),
            program: Self::default(),
        };
        for (at, bundle) in listing.bundles().iter().enumerate() {
            for mark in listing.regions(bundle).filter(|mark| mark.starts) {
                compiler.regions.entry(mark.region).or_insert(at);
            }
        }
        // If a VMEM row is several granules, pointers are converted for the DMA engine.
        let converts = memchr::memmem::find(listing.text().as_bytes(), b"int_to_ptr.vmem").is_some();
        compiler.program.granule_bytes = if converts { 32 } else { 512 };
        compiler.program.undefined = undefined_predicate(listing);
        for bundle in listing.bundles() {
            let slots = listing.slots(bundle).iter();
            let instructions = slots.clone().filter_map(|slot| compiler.instruction(slot)).collect();
            compiler.program.bundles.push(instructions);
            let accesses = slots.filter_map(|slot| compiler.access(slot)).collect();
            compiler.program.accesses.push(accesses);
            let multiplies = listing.slots(bundle).iter().any(|slot| listing.op(slot).starts_with("vmatmul"));
            compiler.program.multiplies.push(multiplies);
        }
        compiler.program.registers = compiler.names.len();
        compiler.program
    }

    /// `#allocation8 + 3` for an address.
    pub(super) fn describe(&self, address: i64) -> String {
        let (buffer, offset) = buffer_of(address);
        let buffer = usize::try_from((buffer >> BUFFER_SHIFT) - 1).ok().and_then(|b| self.buffers.get(b));
        match (buffer, offset) {
            (Some(buffer), 0) => buffer.clone(),
            (Some(buffer), offset) => format!("{buffer} + {offset}"),
            (None, _) => format!("{address:#x}"),
        }
    }
}

struct Compiler<'l, 'a> {
    listing: &'l Listing<'a>,
    names: HashMap<&'a str, Register>,
    buffers: HashMap<&'a str, i64>,
    kinds: HashMap<&'a str, u32>,
    /// Positions of bundles by number and by the region that begins with them.
    addresses: HashMap<u32, usize>,
    regions: HashMap<u32, usize>,
    /// Divisions with two results: whether the first was popped, and the second one.
    divisions: HashMap<&'a str, (bool, Compute)>,
    program: Program,
}

impl<'a> Compiler<'_, 'a> {
    fn instruction(&mut self, slot: &Slot) -> Option<Instruction> {
        let op = self.listing.op(slot);
        // Of vector instructions, only synchronization matters.
        if (op.starts_with('v') && !op.starts_with("vsync")) || op.starts_with("shalt") {
            return None;
        }
        let args = self.listing.args(slot);
        let result = self.listing.result(slot);
        let action = self.action(slot, op, result, &args)?;
        let writes = matches!(action, Action::Phi { .. } | Action::Compute(_) | Action::Late(_));
        let otherwise = args.predicate.and_then(|p| p.otherwise).map(|text| self.expr(text));
        Some(Instruction {
            result: if writes { self.result(result) } else { None },
            condition: args.predicate.map(|p| self.condition_of(&p)),
            otherwise,
            action,
        })
    }

    fn action(&mut self, slot: &Slot, op: &'a str, result: &'a str, args: &Args<'a>) -> Option<Action> {
        let head = op.split('.').next().unwrap_or_default();
        Some(match head {
            "sphi" => {
                let physical = physical(result)?;
                Action::Phi { physical: self.register(physical) }
            }
            "sbr" => Action::Branch { target: self.target(args) },
            "sst" => {
                let address = self.address(args.get(0));
                // The value follows the address without a comma: `sst [smem:[#allocation4]] %s1_s0`.
                let (address, value) = match split_address(args.get(0)) {
                    Some((address, value)) if args.operands.len() == 1 => {
                        (self.address(address), self.expr(value))
                    }
                    _ => (address, self.expr(args.get(1))),
                };
                Action::Store { address, value }
            }
            "dma" if op.starts_with("dma.done") => {
                Action::DmaWait { semaphore: self.expr(args.get(0)), granules: self.expr(args.get(1)) }
            }
            "dma" => {
                let comment = slot.args.of(self.listing.text());
                Action::DmaStart(Box::new(self.dma_start(op, args, comment)))
            }
            "vsyncadd" => {
                Action::Signal { semaphore: self.expr(args.get(0)), granules: self.expr(args.get(1)) }
            }
            // Reads and initializations of a semaphore; other operations on it are not modelled.
            head if head.starts_with("vsync") && !matches!(head, "vsyncmov" | "vsyncpa") => {
                Action::Signal { semaphore: Expr::UNKNOWN, granules: Expr::UNKNOWN }
            }
            "int_to_ptr" => Action::Late(self.expr(args.get(0))),
            "sdivrem" => Action::Compute(self.divide(op, slot, result, args)),
            "spop" if self.divisions.contains_key(args.get(0)) => Action::Compute(self.pop(args.get(0))),
            // Only the comment shows that this word is not data.
            "sld" if slot.args.of(self.listing.text()).contains(CORE_ID) => Action::Compute(Compute::CoreId),
            _ if !(result.starts_with("%s") || result.starts_with("%p")) => return None,
            _ => Action::Compute(self.compute(head, op, result, args)),
        })
    }

    /// `/*hbm=*/%s1, /*size_in_granules=*/512, /*vmem=*/%s2`: source, size, destination.
    fn dma_start(&mut self, op: &'a str, args: &Args<'a>, comment: &str) -> DmaStart {
        let size = args.operands.iter().position(|operand| operand.name == "size_in_granules");
        let (from, to) = dma_spaces(op, comment);
        let mut end = |at: Option<usize>, space: &str, stride: &str| DmaOperand {
            address: self.expr(at.map_or("", |at| args.get(at))),
            memory: Memory::named(space),
            stride: args.named(stride).map_or(Expr::UNKNOWN, |stride| self.expr(stride)),
        };
        let source = end(size.and_then(|size| size.checked_sub(1)), from, "src_stride");
        let destination = end(size.map(|size| size + 1), to, "dst_stride");
        let strided = |operand: &Operand<'_>| operand.name.contains("stride");
        let rows = args
            .operands
            .iter()
            .any(strided)
            .then(|| args.named("steps_per_stride").map_or(Expr::UNKNOWN, |rows| self.expr(rows)));
        DmaStart {
            kind: self.kind(op),
            granules: size.map_or(Expr::UNKNOWN, |size| self.expr(args.get(size))),
            semaphore: self.expr(args.named("dst_syncflagno").unwrap_or_default()),
            source,
            destination,
            descriptor: args.named("stridedescaddr").map(|address| self.expr(address)),
            rows,
        }
    }

    /// `%v1_v0 = vld [vmem:[%s4_s0 + $0x8] ss:$16 sps:$4 sm:$0xff]` and the like.
    fn access(&mut self, slot: &Slot) -> Option<LoadStore> {
        let op = self.listing.op(slot);
        let text = slot.args.of(self.listing.text());
        let scalar = matches!(op, "sld" | "sst");
        if !(scalar || op.starts_with('v') && text.contains("[vmem:")) || text.contains(CORE_ID) {
            return None;
        }
        let args = self.listing.args(slot);
        let operand = args.get(0);
        let (address, footprint) = match operand.strip_prefix("[vmem:") {
            Some(inner) => {
                let (address, modifiers) = inner.split_once(']').unwrap_or((inner, ""));
                let modifier =
                    |name: &str| modifiers.split([' ', ']']).find_map(|word| word.strip_prefix(name));
                // Masks are hexadecimal, strides decimal.
                let number = |text: &str| text.strip_prefix('$').and_then(integer);
                let mask = modifier("sm:").and_then(|mask| match number(mask) {
                    Some(mask) => Some((u32::try_from(mask).ok()?, true)),
                    None => mask.starts_with("%s").then_some((ALL_SUBLANES, false)),
                });
                // Rows are contiguous without a stride; an unreadable stride is unknown.
                let stride = modifier("ss:").map_or(Some(1), number);
                let per_stride = modifier("sps:").map_or(Some(1), number).filter(|&sublanes| sublanes > 0);
                match (mask, stride, per_stride) {
                    (Some((mask, known)), Some(stride), Some(per_stride)) => {
                        let address = self.sum(address.trim_start_matches('['));
                        let sublanes = Sublanes { mask, stride, per_stride };
                        (
                            address,
                            if known { Footprint::Rows(sublanes) } else { Footprint::SomeRows(sublanes) },
                        )
                    }
                    _ => (Expr::UNKNOWN, Footprint::Rows(Sublanes::FIRST)),
                }
            }
            None if !scalar => (Expr::UNKNOWN, Footprint::Rows(Sublanes::FIRST)),
            None => {
                let address =
                    split_address(operand).map_or(Expr::UNKNOWN, |(address, _)| self.address(address));
                (address, Footprint::Word)
            }
        };
        Some(LoadStore {
            offset: slot.op.start,
            condition: args.predicate.map(|predicate| self.condition_of(&predicate)),
            writes: op.starts_with("vst") || op == "sst",
            address,
            footprint,
        })
    }

    fn compute(&mut self, head: &str, op: &str, result: &'a str, args: &Args<'a>) -> Compute {
        let signed = !op.contains(".u32");
        let arithmetic = match head {
            "smov" | "spop" => return Compute::Value(self.expr(args.get(0))),
            // `inlined_call_operand.<no memory space>`: a scalar, such as the bound of a dynamic grid.
            "inlined_call_operand" if op.ends_with('.') => return Compute::Unknown,
            "inlined_call_operand" => return Compute::Value(self.buffer(result)),
            "sld" => return Compute::Load(self.address(args.get(0))),
            "scmp" => return self.compare(op, args).unwrap_or(Compute::Unknown),
            "scalar_select" => return self.select(args).unwrap_or(Compute::Unknown),
            "por" => return self.logic(Logic::Or(false), args),
            "pnor" => return self.logic(Logic::Or(true), args),
            "pand" | "pmov" => return self.logic(Logic::And(false), args),
            "pnand" | "pneg" => return self.logic(Logic::And(true), args),
            "pxor" => return self.logic(Logic::Xor, args),
            "scalar_lea" | "sadd" => Arithmetic::Add,
            "ssub" => Arithmetic::Sub,
            "smul" => Arithmetic::Mul,
            "sshll" => Arithmetic::ShiftLeft,
            "sshrl" => Arithmetic::ShiftRightUnsigned,
            "sshra" => Arithmetic::ShiftRightSigned,
            "sand" => Arithmetic::And,
            "sor" => Arithmetic::Or,
            "sxor" => Arithmetic::Xor,
            "smin" => Arithmetic::Min { signed },
            "smax" => Arithmetic::Max { signed },
            _ => return Compute::Unknown,
        };
        if op.contains(".f32") {
            return Compute::Unknown;
        }
        Compute::Arithmetic(arithmetic, self.expr(args.get(0)), self.expr(args.get(1)))
    }

    /// `sdivrem.u32 %s1, 10 /* kRem */`: the comment says which result `spop.drf` pops, or that it pops both
    /// in turn.
    fn divide(&mut self, op: &str, slot: &Slot, result: &'a str, args: &Args<'a>) -> Compute {
        let signed = !op.contains(".u32");
        let (left, right) = (self.expr(args.get(0)), self.expr(args.get(1)));
        let comment = slot.args.of(self.listing.text());
        let (quotient, remainder) = (Arithmetic::Divide { signed }, Arithmetic::Remainder { signed });
        let arithmetic = match () {
            () if comment.contains("kDivAndRem") => {
                let second = Compute::Arithmetic(remainder, left.clone(), right.clone());
                self.divisions.insert(result, (false, second));
                quotient
            }
            () if comment.contains("kRem") => remainder,
            () if comment.contains("kQuo") || comment.contains("kDiv") => quotient,
            () => return Compute::Unknown,
        };
        Compute::Arithmetic(arithmetic, left, right)
    }

    /// The quotient is popped before the remainder.
    fn pop(&mut self, division: &'a str) -> Compute {
        let quotient = Compute::Value(self.expr(division));
        match self.divisions.get_mut(division) {
            Some((popped @ false, _)) => {
                *popped = true;
                quotient
            }
            Some((true, remainder)) => remainder.clone(),
            None => Compute::Unknown,
        }
    }

    fn compare(&mut self, op: &str, args: &Args<'a>) -> Option<Compute> {
        let mut parts = op.split('.').skip(1);
        let comparison = match parts.next()? {
            "ge" => Comparison::Ge,
            "gt" => Comparison::Gt,
            "lt" => Comparison::Lt,
            "le" => Comparison::Le,
            "eq" => Comparison::Eq,
            "ne" => Comparison::Ne,
            _ => return None,
        };
        let signed = match parts.next()? {
            "s32" => true,
            "u32" => false,
            _ => return None,
        };
        let (left, right) = (self.expr(args.get(0)), self.expr(args.get(1)));
        Some(Compute::Compare { comparison, signed, left, right })
    }

    fn select(&mut self, args: &Args<'a>) -> Option<Compute> {
        let condition = self.condition(args.named("predicate")?)?;
        let then = self.expr(args.named("on_true")?);
        let otherwise = self.expr(args.named("on_false")?);
        Some(Compute::Select { condition, then, otherwise })
    }

    fn logic(&mut self, logic: Logic, args: &Args<'a>) -> Compute {
        let truth = |operand: &super::Operand<'a>| match self.condition(operand.text) {
            Some(condition) => Truth::Register(condition),
            None => Truth::Constant(matches!(operand.text, "1" | "true")),
        };
        Compute::Logic(logic, args.operands.iter().map(truth).collect())
    }

    fn condition(&mut self, text: &'a str) -> Option<Condition> {
        let negated = text.starts_with('!');
        let name = text.trim_start_matches('!');
        let register = name.starts_with('%').then(|| self.register(name))?;
        Some(Condition { register, negated })
    }

    fn condition_of(&mut self, predicate: &Predicate<'a>) -> Condition {
        Condition { register: self.register(predicate.register), negated: predicate.negated }
    }

    /// `target bundleno = 303 (0x12f), region = 36`, or only `target = $region36` after the final pass.
    fn target(&self, args: &Args<'a>) -> Option<usize> {
        let target = args.get(0).strip_prefix("target")?.trim_start();
        if let Some(number) = target.strip_prefix("bundleno = ") {
            let number: u32 = number.split(' ').next()?.parse().ok()?;
            return self.addresses.get(&number).copied();
        }
        let region: u32 = target.strip_prefix("= $region")?.split(' ').next()?.parse().ok()?;
        self.regions.get(&region).copied()
    }

    fn register(&mut self, name: &'a str) -> Register {
        let next = self.names.len() as Register;
        *self.names.entry(name).or_insert(next)
    }

    /// The register of a result, and the physical one behind it.
    fn result(&mut self, name: &'a str) -> Option<(Register, Register)> {
        let behind = physical(name).unwrap_or(name);
        (!name.is_empty()).then(|| (self.register(name), self.register(behind)))
    }

    fn kind(&mut self, op: &'a str) -> u32 {
        let next = self.kinds.len() as u32;
        *self.kinds.entry(op).or_insert_with(|| {
            self.program.dma_kinds.push(op.to_owned());
            next
        })
    }

    fn buffer(&mut self, name: &'a str) -> Expr {
        let next = (self.buffers.len() as i64 + 1) << BUFFER_SHIFT;
        let address = *self.buffers.entry(name).or_insert_with(|| {
            self.program.buffers.push(name.to_owned());
            next
        });
        Expr { constant: Some(address), registers: Vec::new() }
    }

    /// `[smem:[#allocation4 + $0x1]]` or `[smem:%s1_s0]`.
    fn address(&mut self, text: &'a str) -> Expr {
        let inner = text.strip_prefix("[smem:").and_then(|t| t.strip_suffix(']'));
        inner.map_or(Expr::UNKNOWN, |inner| self.sum(unbracket(inner)))
    }

    /// `%s1_s0`, `7`, `[#allocation8 + $0x1]`, `[resolvable:$true] %s1_s0`, `%s1_s0 [#allocation8]`.
    fn expr(&mut self, text: &'a str) -> Expr {
        if text.starts_with("[#") {
            return self.sum(unbracket(text));
        }
        let text = match text.strip_prefix("[resolvable") {
            Some(rest) => rest.split_once(']').map_or("", |(_, after)| after),
            None => text,
        };
        self.sum(text.split_whitespace().next().unwrap_or_default())
    }

    fn sum(&mut self, text: &'a str) -> Expr {
        let mut total = Expr { constant: Some(0), registers: Vec::new() };
        for part in text.split('+').map(str::trim) {
            let constant = match part.as_bytes().first() {
                Some(b'%') => {
                    total.registers.push(self.register(part));
                    Some(0)
                }
                Some(b'#') => self.buffer(part).constant,
                Some(b'$') => part.get(1..).and_then(integer_hex),
                _ => integer(part),
            };
            total.constant = total.constant.zip(constant).and_then(|(a, b)| a.checked_add(b));
        }
        if total.constant.is_none() { Expr::UNKNOWN } else { total }
    }
}

/// The memories at both ends of a DMA: `dma.hbm_to_vmem` says it; `dma.general` says it in a comment,
/// `vmem-to-hbm`.
pub(super) fn dma_spaces<'t>(op: &'t str, comment: &'t str) -> (&'t str, &'t str) {
    let spaces = op.strip_prefix("dma.").and_then(|spaces| spaces.split_once("_to_"));
    let spaces = spaces.or_else(|| comment.split_whitespace().find_map(|word| word.split_once("-to-")));
    spaces.unwrap_or_default()
}

/// The first predicate that is read but never written. The compiler writes every register that it names, so
/// such a listing was edited or truncated.
fn undefined_predicate(listing: &Listing<'_>) -> Option<(usize, String)> {
    let defined: HashSet<_> = listing.all_slots().map(|(_, slot)| listing.result(slot)).collect();
    for (at, bundle) in listing.bundles().iter().enumerate() {
        let predicates = listing.slots(bundle).iter().filter_map(|slot| listing.args(slot).predicate);
        let undefined = predicates.map(|predicate| predicate.register).find(|name| !defined.contains(name));
        if let Some(name) = undefined {
            return Some((at, name.to_owned()));
        }
    }
    None
}

/// `s1` of `%s5_s1`.
fn physical(name: &str) -> Option<&str> {
    name.rsplit_once('_').map(|(_, physical)| physical)
}

fn unbracket(text: &str) -> &str {
    text.strip_prefix('[').and_then(|t| t.split(']').next()).unwrap_or(text)
}

/// Splits `[smem:[..]] %s1` after the matching bracket.
fn split_address(text: &str) -> Option<(&str, &str)> {
    let mut depth = 0i32;
    for (at, byte) in text.bytes().enumerate() {
        depth += match byte {
            b'[' => 1,
            b']' => -1,
            _ => 0,
        };
        if depth == 0 {
            return Some((text.get(..=at)?, text.get(at + 1..)?.trim()));
        }
    }
    None
}

fn integer(text: &str) -> Option<i64> {
    text.parse().ok().or_else(|| text.strip_prefix("0x").and_then(integer_hex))
}

fn integer_hex(text: &str) -> Option<i64> {
    i64::from_str_radix(text.strip_prefix("0x").unwrap_or(text), 16).ok()
}
