//! ptxas and nvdisasm for tests.

use std::{path::Path, process::Command, sync::OnceLock};

use octile_cli::tools::{Assembler, FoundTool, NVDISASM, PTXAS, Tool, ToolOrigin, ToolPaths, install};

/// The tools: found as `octile` finds them, else fetched into the target folder. A test that needs them fails
/// without them, because a pass would claim that kernels assemble.
pub(crate) fn assembler() -> &'static Assembler {
    static TOOLS: OnceLock<Assembler> = OnceLock::new();
    TOOLS.get_or_init(|| Assembler { ptxas: found(&PTXAS), nvdisasm: found(&NVDISASM) })
}

fn found(tool: &'static Tool) -> FoundTool {
    if let Ok(found) = tool.find(&ToolPaths::of_process(tool, None)) {
        return found;
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("tools");
    match install(tool, &folder) {
        Ok(installed) => FoundTool {
            path: installed.path,
            version: Some(installed.version),
            origin: ToolOrigin::Installed,
        },
        Err(error) => panic!("this test did not run, because {} could not be fetched: {error:#}", tool.name),
    }
}

/// Runs the program in a folder, with these tools: its exit code and everything that it said.
#[allow(dead_code, reason = "not every test that needs the tools runs the program")]
pub(crate) fn octile(arguments: &[&str], folder: &Path) -> (i32, String) {
    let tools = assembler();
    let output = Command::new(env!("CARGO_BIN_EXE_octile"))
        .args(arguments)
        .current_dir(folder)
        .env("OCTILE_PTXAS", &tools.ptxas.path)
        .env("OCTILE_NVDISASM", &tools.nvdisasm.path)
        .output()
        .expect("octile starts");
    let said = String::from_utf8([output.stdout, output.stderr].concat()).expect("the program writes UTF-8");
    assert!(!said.contains("panicked"), "{arguments:?}: {said}");
    (output.status.code().expect("an exit code"), said)
}
