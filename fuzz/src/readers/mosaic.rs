//! Mosaic kernels, and the StableHLO modules that contain them.

use octile_core::{
    device::tpu::{TpuChip, TpuRates},
    sample::Rng,
};
use octile_dump::mosaic::MosaicKernel;
use octile_mosaic::{
    Attr, Function, Module, Type,
    interpret::{Element, Options, Tensor, embedded_kernels, simulate},
    parse,
    verify::verify,
};

use super::{facts, text};

/// Operation limit: enough to reach every branch of a small kernel.
const MAX_OPERATIONS: u64 = 1 << 14;
/// Elements of the largest value: the budget of `octile simulate` would be too slow for fuzzing.
const MAX_ELEMENTS: usize = 1 << 15;

/// A Mosaic kernel: parsed, printed, verified, simulated.
pub fn mosaic(bytes: &[u8]) -> bool {
    let Some(text) = text(bytes) else { return false };
    let _ = (MosaicKernel::parse(text), facts(bytes));
    read(text).is_some_and(|module| {
        let chip = TpuChip::named("tpu7x").expect("the chip is known");
        let _ = verify(&module, chip);
        run(&module, chip.rates)
    })
}

/// A kernel in bytecode: read, printed, verified, simulated.
pub fn bytecode(bytes: &[u8]) -> bool {
    let Ok(module) = octile_mosaic::bytecode::read(bytes) else { return false };
    let (module, text) = module.into_text();
    assert!(read(&text).is_some(), "a module of bytecode prints as text that cannot be read:\n{text}");
    let chip = TpuChip::named("tpu7x").expect("the chip is known");
    let _ = verify(&module, chip);
    run(&module, chip.rates)
}

/// A StableHLO module and the kernels inside it: parsed, printed, simulated.
pub fn stablehlo(bytes: &[u8]) -> bool {
    let Some(module) = text(bytes).and_then(read) else { return false };
    for kernel in embedded_kernels(&module).unwrap_or_default() {
        mosaic(kernel.text.as_bytes());
    }
    run(&module, TpuChip::named("tpu7x").expect("the chip is known").rates)
}

/// Parses a module and requires its printed form to parse to the same module.
fn read(text: &str) -> Option<Module> {
    let module = parse(text).ok()?;
    let printed = module.to_string();
    match parse(&printed) {
        Ok(again) => assert_eq!(again.to_string(), printed, "a module prints as another one"),
        Err(error) => panic!("a printed module cannot be read: {error}\n{printed}"),
    }
    Some(module)
}

/// Simulates a small module on random operands, with and without the last one, which may be a result. Returns
/// whether it finishes.
fn run(module: &Module, rates: TpuRates) -> bool {
    let values = module.functions.iter().flat_map(|function| &function.values);
    if !values.into_iter().all(|value| elements(&value.ty).is_some_and(|elements| elements <= MAX_ELEMENTS)) {
        return false;
    }
    let Some(entry) = module.function("main").or(module.functions.first()) else { return false };
    let operands = operands(entry);
    let options = Options { max_operations: MAX_OPERATIONS, ..Options::new(rates) };
    let ends = |given: usize| simulate(module, &operands[..given], &options).is_ok();
    [operands.len(), operands.len().saturating_sub(1)].map(ends).contains(&true)
}

fn elements(ty: &Type) -> Option<usize> {
    ty.shape().iter().try_fold(1usize, |all, &extent| all.checked_mul(extent))
}

/// Random operands for the arguments that are neither grid indices nor scratch memory.
fn operands(entry: &Function) -> Vec<Tensor> {
    let arguments = entry.body.arguments.iter().map(|&argument| entry.ty(argument));
    let shaped = arguments.filter(|ty| matches!(ty, Type::MemRef(_) | Type::Tensor(..)));
    let mut rng = Rng::new(1, 0);
    let tensors = shaped.map_while(|ty| {
        let element = Element::of(ty)?;
        let bytes = elements(ty)?.checked_mul(element.bytes())?;
        Some(Tensor {
            element,
            shape: ty.shape().to_vec(),
            bytes: (0..bytes).map(|_| rng.next_u64() as u8).collect::<Vec<u8>>().into(),
        })
    });
    let mut tensors: Vec<_> = tensors.collect();
    if let Some(Attr::Integer(scratch, _)) = entry.attributes.get("scratch_operands") {
        let scratch = usize::try_from(*scratch).unwrap_or_default();
        let arguments = entry.body.arguments.len().saturating_sub(scratch);
        tensors.truncate(arguments);
    }
    tensors
}
