//! PTX, as the simulator and the checks read it.

use octile_dump::gpu::Code;
use octile_ptx::Program;

use super::{facts, text};

/// PTX: read and run by the simulator, read by the checks.
pub fn ptx(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    let _ = Code::parse_ptx(text);
    let _ = Program::parse(text);
    facts(bytes);
}
