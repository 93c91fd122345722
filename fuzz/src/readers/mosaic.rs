//! Mosaic kernels and the StableHLO around them.

use octile_core::device::tpu::TpuChip;
use octile_dump::mosaic::MosaicScan;
use octile_mosaic::{Module, interpret::embedded_kernel, parse, verify::verify};

use super::{facts, text};

/// A Mosaic kernel: read, printed, verified, run.
pub fn mosaic(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    let _ = MosaicScan::read(text);
    if let Some(module) = read(text) {
        let chip = TpuChip::named("tpu7x").expect("the chip is known");
        let _ = verify(&module, chip);
    }
    facts(bytes);
}

/// A StableHLO module, and the kernel inside it.
pub fn stablehlo(bytes: &[u8]) {
    let Some(module) = text(bytes).and_then(read) else { return };
    if let Some(kernel) = embedded_kernel(&module) {
        mosaic(kernel.as_bytes());
    }
}

/// The module, which must print as text that reads back as the same module.
fn read(text: &str) -> Option<Module> {
    let module = parse(text).ok()?;
    let printed = module.to_string();
    match parse(&printed) {
        Ok(again) => assert_eq!(again.to_string(), printed, "a module prints as another one"),
        Err(error) => panic!("a printed module cannot be read: {error}\n{printed}"),
    }
    Some(module)
}
