//! The readers, by the crate that they belong to.

mod dump;
mod folder;
mod mosaic;
mod ptx;

pub use dump::{facts, hlo, kernel_body, llo, sass, tables};
pub use folder::{manifest, safetensors};
pub use mosaic::{mosaic, stablehlo};
pub use ptx::ptx;

/// The bytes as text, which is what most readers take.
fn text(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}
