//! The readers, by crate.

mod dump;
mod folder;
mod mosaic;
mod ptx;

pub use dump::{facts, hlo, kernel_body, llo, sass, tables};
pub use folder::{manifest, safetensors};
pub use mosaic::{bytecode, mosaic, stablehlo};
pub use ptx::ptx;

/// Decodes the bytes as UTF-8, which most readers expect.
fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}
