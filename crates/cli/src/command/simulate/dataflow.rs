//! Which operations a result depends on, so that a rounding loosens the tolerance of no other result.
//!
//! A memref stands for all that is ever stored in its buffer. What a store or a DMA writes depends on what it
//! reads, not on the branch or loop that it is in.

use std::collections::{HashMap, HashSet};

use octile_mosaic::{
    Attr, Function, Module, Op, Region, Type, Value,
    interpret::{EmbeddedKernel, OpKind, kernel_entry, op_kind},
};

/// A value of a function, by the function's number.
type Node = (usize, Value);

/// What each value of a module and its kernels is computed from.
pub(super) struct Dataflow<'m> {
    functions: Vec<FunctionFlow<'m>>,
    /// What a value is in other functions: arguments in their calls, results in the called function.
    elsewhere: HashMap<Node, Vec<Node>>,
    /// Results of the program.
    results: Vec<Node>,
}

impl<'m> Dataflow<'m> {
    /// Follows a module, its kernels, and its `results` results; `None` if something cannot be followed.
    pub(super) fn of(module: &'m Module, kernels: &'m [EmbeddedKernel], results: usize) -> Option<Self> {
        let modules: Vec<&'m Module> =
            std::iter::once(module).chain(kernels.iter().map(|kernel| &kernel.module)).collect();
        let functions = modules.iter().flat_map(|module| &module.functions);
        let functions = functions.map(FunctionFlow::of).collect::<Option<Vec<_>>>()?;
        let mut flow = Self { functions, elsewhere: HashMap::new(), results: Vec::new() };
        // Number of the first function of each module.
        let mut first = 0;
        let mut entries = Vec::new();
        for (number, inner) in modules.iter().enumerate() {
            flow.link_calls(inner, first)?;
            if number > 0 {
                entries.push(entry(inner, first)?);
            }
            first += inner.functions.len();
        }
        flow.link_kernels(module, &entries)?;
        flow.results = flow.program_results(module, kernels.is_empty(), results)?;
        Some(flow)
    }

    fn program_results(&self, module: &Module, is_bare: bool, results: usize) -> Option<Vec<Node>> {
        if is_bare {
            let (number, function) = entry(module, 0)?;
            return Some(kernel_arguments(function, results)?.results.iter().map(|&v| (number, v)).collect());
        }
        let number = module.functions.iter().position(|function| function.name == "main")?;
        let returned = self.functions[number].returned()?;
        Some(returned.iter().map(|&value| (number, value)).collect())
    }

    /// Connects calls of functions of the same module, which begin at number `first`.
    fn link_calls(&mut self, module: &Module, first: usize) -> Option<()> {
        for (caller, function) in module.functions.iter().enumerate() {
            let mut calls: Vec<&Op> = Vec::new();
            function.walk(&mut |op| calls.extend(callee(op).is_some().then_some(op)));
            for op in calls {
                let name = callee(op)?;
                let number = first + module.functions.iter().position(|function| function.name == name)?;
                let called = &self.functions[number];
                let (arguments, returned) =
                    (called.function.body.arguments.clone(), called.returned()?.to_vec());
                for (argument, operand) in arguments.into_iter().zip(&op.operands) {
                    self.link((number, argument), (first + caller, *operand));
                }
                for (result, value) in op.results.iter().zip(returned) {
                    self.link((first + caller, *result), (number, value));
                }
            }
        }
        Some(())
    }

    /// Connects calls of kernels, in the order of the text.
    fn link_kernels(&mut self, module: &Module, entries: &[(usize, &Function)]) -> Option<()> {
        let mut entries = entries.iter();
        for (caller, function) in module.functions.iter().enumerate() {
            let mut calls: Vec<&Op> = Vec::new();
            function.walk(&mut |op| calls.extend(is_kernel_call(op).then_some(op)));
            for op in calls {
                let &(number, kernel) = entries.next()?;
                let arguments = kernel_arguments(kernel, op.results.len())?;
                // Extents of a dynamic grid come first, and are no arguments of the kernel.
                let operands = op.operands.len().checked_sub(arguments.inputs.len())?;
                for (argument, operand) in arguments.inputs.iter().zip(&op.operands[operands..]) {
                    self.link((number, *argument), (caller, *operand));
                }
                for (result, argument) in op.results.iter().zip(&arguments.results) {
                    self.link((caller, *result), (number, *argument));
                }
                // A result may share the memory of any operand.
                if op.attributes.get("output_operand_aliases").is_some() {
                    for result in &op.results {
                        let operands = op.operands.iter();
                        operands.for_each(|operand| self.link((caller, *result), (caller, *operand)));
                    }
                }
            }
        }
        Some(())
    }

    fn link(&mut self, value: Node, source: Node) {
        self.elsewhere.entry(value).or_default().push(source);
    }

    /// The functions with the operations in each that result `number` depends on.
    pub(super) fn reaching(&self, number: usize) -> Vec<(&'m Function, HashSet<*const Op>)> {
        let functions = self.functions.iter().map(|flow| (flow.function, HashSet::new()));
        let mut reached: Vec<(&Function, HashSet<*const Op>)> = functions.collect();
        let mut seen: HashSet<Node> = HashSet::new();
        let mut open: Vec<Node> = self.results.get(number).copied().into_iter().collect();
        while let Some((function, value)) = open.pop() {
            let value = self.functions[function].root(value);
            if !seen.insert((function, value)) {
                continue;
            }
            for definition in self.functions[function].definitions.get(&value).into_iter().flatten() {
                reached[function].1.insert(std::ptr::from_ref(definition.op));
                open.extend(definition.sources.iter().map(|&source| (function, source)));
            }
            open.extend(self.elsewhere.get(&(function, value)).into_iter().flatten());
        }
        reached
    }
}

/// An operation that defines a value or writes a buffer.
struct Definition<'m> {
    op: &'m Op,
    sources: Vec<Value>,
}

/// What each value of a function is computed from.
struct FunctionFlow<'m> {
    function: &'m Function,
    /// The buffer that each memref is a view of, and of sums that are popped from MXUs the first ones.
    roots: Vec<Value>,
    /// The first sums that are popped: they stand for all that the MXUs hold.
    sums: Option<Value>,
    definitions: HashMap<Value, Vec<Definition<'m>>>,
}

impl<'m> FunctionFlow<'m> {
    fn of(function: &'m Function) -> Option<Self> {
        let mut roots: Vec<Option<Value>> = vec![None; function.values.len()];
        let mut note = |region: &Region| region.arguments.iter().for_each(|v| roots[v.index()] = Some(*v));
        note(&function.body);
        function.walk(&mut |op| op.regions.iter().for_each(&mut note));
        function.walk(&mut |op| op.results.iter().for_each(|v| roots[v.index()] = Some(*v)));
        let roots = roots.into_iter().collect::<Option<Vec<_>>>()?;
        let mut sums = None;
        function.walk(&mut |op| {
            let is_pop = op_kind(&op.name) == Some(OpKind::PopSums);
            sums = sums.or(op.results.first().copied().filter(|_| is_pop));
        });
        let mut flow = Self { function, roots, sums, definitions: HashMap::new() };
        flow.visit(&function.body)?;
        Some(flow)
    }

    fn root(&self, value: Value) -> Value {
        self.roots.get(value.index()).copied().unwrap_or(value)
    }

    /// The values that the function returns.
    fn returned(&self) -> Option<&'m [Value]> {
        self.function.body.ops.last().map(|op| op.operands.as_slice())
    }

    fn visit(&mut self, region: &'m Region) -> Option<()> {
        for op in &region.ops {
            self.define(op)?;
            op.regions.iter().try_for_each(|region| self.visit(region))?;
        }
        Some(())
    }

    fn define(&mut self, op: &'m Op) -> Option<()> {
        let function = self.function;
        let mut memory = op.operands.iter().filter(|value| is_memory(function.ty(**value)));
        match op_kind(&op.name) {
            Some(OpKind::Slice | OpKind::Alias | OpKind::Reinterpret) => {
                if let (Some(from), [to]) = (memory.next(), op.results.as_slice()) {
                    self.roots[to.index()] = self.root(*from);
                }
                return Some(());
            }
            Some(OpKind::Store) => {
                let target = *memory.next()?;
                let sources = op.operands.iter().copied().filter(|value| *value != target).collect();
                self.add(target, op, sources);
            }
            Some(OpKind::StartDma | OpKind::Copy) => {
                let (source, target) = (*memory.next()?, *memory.next()?);
                self.add(target, op, vec![source]);
            }
            Some(OpKind::PushWeights | OpKind::Accumulate) => {
                if let Some(sums) = self.sums {
                    self.add(sums, op, op.operands.clone());
                }
                return Some(());
            }
            Some(OpKind::PopSums) => {
                if let (Some(sums), [result]) = (self.sums, op.results.as_slice()) {
                    self.roots[result.index()] = sums;
                    self.add(sums, op, Vec::new());
                }
                return Some(());
            }
            Some(OpKind::Allocate) => return Some(()),
            _ => {}
        }
        let inside = op.regions.iter();
        let arguments = inside.clone().flat_map(|region| region.arguments.iter().copied());
        let defined: Vec<Value> = op.results.iter().copied().chain(arguments).collect();
        // Which buffer a loop carries, or a branch returns, is not followed.
        if defined.iter().any(|value| is_memory(function.ty(*value))) {
            return None;
        }
        if callee(op).is_some() || is_kernel_call(op) {
            return Some(());
        }
        let yielded = inside.filter_map(|region| region.ops.last()).flat_map(|last| last.operands.iter());
        let sources: Vec<Value> = op.operands.iter().chain(yielded).copied().collect();
        defined.into_iter().for_each(|value| self.add(value, op, sources.clone()));
        Some(())
    }

    fn add(&mut self, value: Value, op: &'m Op, sources: Vec<Value>) {
        self.definitions.entry(self.root(value)).or_default().push(Definition { op, sources });
    }
}

/// Arguments of a kernel that hold operands and results.
struct KernelArguments {
    inputs: Vec<Value>,
    results: Vec<Value>,
}

/// The operands and the last arguments before the scratch memory, which are the results.
fn kernel_arguments(function: &Function, results: usize) -> Option<KernelArguments> {
    let scratch = match function.attributes.get("scratch_operands") {
        Some(Attr::Integer(count, _)) => usize::try_from(*count).ok()?,
        _ => 0,
    };
    let arguments = function.body.arguments.iter().copied();
    let references = arguments.filter(|&value| matches!(function.ty(value), Type::MemRef(_)));
    let mut inputs: Vec<Value> = references.collect();
    inputs.truncate(inputs.len().checked_sub(scratch)?);
    let results = inputs.split_off(inputs.len().checked_sub(results)?);
    Some(KernelArguments { inputs, results })
}

/// The kernel of a module whose functions begin at number `first`.
fn entry(module: &Module, first: usize) -> Option<(usize, &Function)> {
    let kernel = kernel_entry(module)?;
    let number = module.functions.iter().position(|function| function.name == kernel.name)?;
    Some((first + number, kernel))
}

fn is_memory(ty: &Type) -> bool {
    matches!(ty, Type::MemRef(memref) if !matches!(*memref.element, Type::DmaSemaphore | Type::Semaphore))
}

fn is_kernel_call(op: &Op) -> bool {
    let target = op.attributes.get("call_target_name");
    op.name == "stablehlo.custom_call"
        && matches!(target, Some(Attr::String(name)) if name == "tpu_custom_call")
}

/// The function that an operation calls.
fn callee(op: &Op) -> Option<&str> {
    ["callee", "decomposition"].iter().find_map(|name| match op.attributes.get(name) {
        Some(Attr::Symbol(callee)) => Some(callee.as_str()),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use octile_mosaic::parse;

    use super::*;

    /// Names of the operations of a bare kernel that a result depends on.
    fn reaching(kernel: &str, results: usize, result: usize) -> Vec<String> {
        let module = parse(kernel).expect("a kernel");
        let flow = Dataflow::of(&module, &[], results).expect("can be followed");
        let reached = flow.reaching(result).into_iter().map(|(_, ops)| ops);
        let reached: HashSet<*const Op> = reached.flatten().collect();
        let mut names = Vec::new();
        module.functions[0].walk(&mut |op| {
            if reached.contains(&std::ptr::from_ref(op)) && !op.name.starts_with("arith.constant") {
                names.push(op.name.to_string());
            }
        });
        names
    }

    const TWO: &str = r"
func.func @k(%x: memref<8x128xf32>, %o: memref<8x128xf32>, %p: memref<8x128xf32>, %s: memref<8x128xf32>)
    attributes {scratch_operands = 1 : i64} {
  %c = arith.constant 0 : index
  %t = arith.constant true
  %0 = vector.load %x[%c, %c] : memref<8x128xf32>, vector<8x128xf32>
  %1 = arith.truncf %0 : vector<8x128xf32> to vector<8x128xbf16>
  %2 = arith.extf %1 : vector<8x128xbf16> to vector<8x128xf32>
  scf.if %t {
    vector.store %2, %s[%c, %c] : memref<8x128xf32>, vector<8x128xf32>
    scf.yield
  }
  %3 = vector.load %s[%c, %c] : memref<8x128xf32>, vector<8x128xf32>
  vector.store %3, %o[%c, %c] : memref<8x128xf32>, vector<8x128xf32>
  %4 = math.exp %0 : vector<8x128xf32>
  vector.store %4, %p[%c, %c] : memref<8x128xf32>, vector<8x128xf32>
  return
}
";

    #[test]
    fn a_rounding_reaches_the_results_that_are_computed_from_it() {
        let first =
            ["vector.load", "arith.truncf", "arith.extf", "vector.store", "vector.load", "vector.store"];
        assert_eq!(reaching(TWO, 2, 0), first);
        assert_eq!(reaching(TWO, 2, 1), ["vector.load", "math.exp", "vector.store"]);
    }

    #[test]
    fn values_of_loops_depend_on_what_they_carry() {
        let text = r"
func.func @k(%x: memref<8x128xf32>, %o: memref<8x128xf32>) {
  %c = arith.constant 0 : index
  %n = arith.constant 4 : i32
  %z = arith.constant 0 : i32
  %1 = arith.constant 1 : i32
  %a = arith.constant dense<0.0> : vector<8x128xf32>
  %r = scf.for %i = %z to %n step %1 iter_args(%b = %a) -> (vector<8x128xf32>) : i32 {
    %0 = vector.load %x[%c, %c] : memref<8x128xf32>, vector<8x128xf32>
    %s = arith.addf %b, %0 : vector<8x128xf32>
    %e = math.exp %s : vector<8x128xf32>
    scf.yield %s : vector<8x128xf32>
  }
  vector.store %r, %o[%c, %c] : memref<8x128xf32>, vector<8x128xf32>
  return
}
";
        assert_eq!(reaching(text, 1, 0), ["scf.for", "vector.load", "arith.addf", "vector.store"]);
    }

    #[test]
    fn popped_sums_depend_on_what_the_mxus_multiplied() {
        let text = r#"
func.func @k(%x: memref<256x256xf32>, %o: memref<256x256xf32>) {
  %c = arith.constant 0 : index
  %0 = vector.load %x[%c, %c] : memref<256x256xf32>, vector<256x256xf32>
  "tpu.matmul_push_rhs"(%0) {mxu_index = 0 : i32, staging_register = 0 : i32, transpose = true} : (vector<256x256xf32>) -> ()
  "tpu.matmul_acc_lhs"(%0) {acc = 0 : i32, load_staged_rhs = 0 : i32, mxu_index = 0 : i32} : (vector<256x256xf32>) -> ()
  %1 = "tpu.matmul_pop"() {acc = 0 : i32, mxu_index = 0 : i32} : () -> vector<128x256xf32>
  %2 = "tpu.matmul_pop"() {acc = 32 : i32, mxu_index = 0 : i32} : () -> vector<128x256xf32>
  vector.store %2, %o[%c, %c] : memref<256x256xf32>, vector<128x256xf32>
  return
}
"#;
        let names = reaching(text, 1, 0);
        for name in ["vector.load", "tpu.matmul_push_rhs", "tpu.matmul_acc_lhs", "tpu.matmul_pop"] {
            assert!(names.iter().any(|reached| reached == name), "{names:?}");
        }
    }

    #[test]
    fn results_of_a_program_are_followed_into_its_kernels() {
        let text = include_str!("../../../../mosaic/tests/lowered/argmax.mlir");
        let module = parse(text).expect("a module");
        let kernels = octile_mosaic::interpret::embedded_kernels(&module).expect("its kernel");
        let flow = Dataflow::of(&module, &kernels, 1).expect("can be followed");
        let reached: usize = flow.reaching(0).iter().map(|(_, ops)| ops.len()).sum();
        assert!(reached > 2, "{reached}");
    }
}
