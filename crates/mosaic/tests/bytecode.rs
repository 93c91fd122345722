//! Bytecode gives the module that the text of the same kernel gives.

use octile_mosaic::{Module, Op, bytecode, parse};

/// Kernels that JAX lowered, as bytecode and as text.
fn kernels() -> Vec<(String, Vec<u8>, String)> {
    let folder = format!("{}/tests/bytecode", env!("CARGO_MANIFEST_DIR"));
    let mut kernels: Vec<_> = std::fs::read_dir(folder)
        .expect("the folder of kernels is there")
        .map(|entry| entry.expect("the folder can be listed").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "bc"))
        .map(|path| {
            let text = std::fs::read_to_string(path.with_extension("mlir")).expect("each kernel has a text");
            (path.display().to_string(), std::fs::read(&path).expect("a kernel is readable"), text)
        })
        .collect();
    kernels.sort();
    kernels
}

/// Prints a module without the names of values, which bytecode lacks, and without the version of the dialect,
/// which text lacks.
fn canonical(mut module: Module) -> String {
    module.attributes = Default::default();
    for function in &mut module.functions {
        function.values.iter_mut().for_each(|value| value.name = None);
    }
    module.to_string()
}

#[test]
fn bytecode_and_text_give_the_same_module() {
    let kernels = kernels();
    assert!(kernels.len() > 1);
    for (path, bytes, text) in kernels {
        assert!(bytecode::is_bytecode(&bytes));
        let module = bytecode::read(&bytes).unwrap_or_else(|error| panic!("{path}: {error}"));
        let text = parse(&text).unwrap_or_else(|error| panic!("{path}: {error}"));
        assert_eq!(canonical(module), canonical(text), "{path}");
    }
}

#[test]
fn printed_modules_know_the_line_of_each_operation() {
    for (path, bytes, _) in kernels() {
        let (module, text) = bytecode::read(&bytes).unwrap().into_text();
        let lines: Vec<&str> = text.lines().collect();
        module.functions[0].walk(&mut |op: &Op| {
            let place = op.place.unwrap_or_else(|| panic!("{path}: {} has no place", op.name));
            let name = op.name.strip_prefix("func.").unwrap_or(&op.name);
            assert!(op.name == "scf.yield" || lines[place.line as usize - 1].contains(name), "{path}");
        });
    }
}
