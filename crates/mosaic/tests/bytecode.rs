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

fn folder(name: &str) -> String {
    format!("{}/tests/bytecode/{name}", env!("CARGO_MANIFEST_DIR"))
}

#[test]
fn serialized_text_is_upgraded_like_bytecode() {
    let stable = std::fs::read_to_string(folder("stable/forms.mlir")).unwrap();
    assert!(stable.contains("\"stable_mosaic.func.func\""));
    let stable = parse(&stable).unwrap();
    assert_eq!(canonical(stable), canonical(bytecode::read(&file("forms.bc")).unwrap()));
}

fn file(name: &str) -> Vec<u8> {
    std::fs::read(folder(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn every_version_of_the_format_gives_the_same_module() {
    let expected = canonical(bytecode::read(&file("deadlock.bc")).unwrap());
    for version in 1..=6 {
        let bytes = file(&format!("versions/deadlock.{version}.bc"));
        assert_eq!(bytes[4] >> 1, version);
        let module = bytecode::read(&bytes).unwrap_or_else(|error| panic!("version {version}: {error}"));
        assert_eq!(canonical(module), expected, "version {version}");
    }
    for version in 4..=6 {
        let module = bytecode::read(&file(&format!("versions/deadlock.native.{version}.bc"))).unwrap();
        assert_eq!(canonical(module), expected, "operations of the tpu dialect, version {version}");
    }
    let error = bytecode::read(b"ML\xefR\x0fMLIR\0").unwrap_err();
    assert_eq!(
        error.to_string(),
        "byte 4: bytecode version 7 is newer than 6: write the file with desired_version=6"
    );
}

#[test]
fn operations_know_the_lines_they_come_from() {
    let lines = |module: &Module, name: &str| -> Vec<Vec<String>> {
        let mut found = Vec::new();
        module.functions[0].walk(&mut |op: &Op| {
            if op.name == name {
                let frames = op.source.iter().flat_map(|frames| frames.iter());
                let spell = |function: Option<&str>, line: u32| format!("{}:{line}", function.unwrap_or("?"));
                found.push(frames.map(|frame| spell(frame.function.as_deref(), frame.line)).collect());
            }
        });
        found
    };
    let read = bytecode::read(&file("deadlock.bc")).unwrap();
    let parsed = parse(&String::from_utf8(file("deadlock.mlir")).unwrap()).unwrap();
    let dmas = lines(&read, "tpu.enqueue_dma");
    assert_eq!(dmas[0], ["kernel:12"]);
    for name in ["tpu.enqueue_dma", "tpu.wait_dma2", "tpu.matmul", "arith.muli", "scf.for"] {
        assert_eq!(lines(&read, name), lines(&parsed, name), "{name}");
    }
    let calls = lines(&read, "arith.muli");
    assert!(calls.contains(&vec!["kernel.<locals>.cx:9".to_owned(), "kernel:12".to_owned()]), "{calls:?}");
}

/// Reads bytes that may be anything; a module that is read must print and parse.
fn survives(bytes: &[u8]) -> bool {
    let Ok(module) = bytecode::read(bytes) else { return false };
    let (_, text) = module.into_text();
    parse(&text).unwrap_or_else(|error| panic!("a printed module cannot be parsed: {error}\n{text}"));
    true
}

#[test]
fn every_truncation_is_an_error() {
    for name in ["alias.bc", "deadlock.bc", "versions/deadlock.6.bc"] {
        let bytes = file(name);
        for end in 0..bytes.len() {
            assert!(bytecode::read(&bytes[..end]).is_err(), "{name} up to byte {end}");
        }
    }
}

#[test]
fn flipped_bits_give_an_error_or_a_module_that_prints() {
    let alias = file("alias.bc");
    for at in 0..alias.len() * 8 {
        let mut damaged = alias.clone();
        damaged[at / 8] ^= 1 << (at % 8);
        survives(&damaged);
    }
    let mut state = 1u64;
    for name in ["deadlock.bc", "versions/deadlock.2.bc", "versions/deadlock.6.bc"] {
        let bytes = file(name);
        for _ in 0..1500 {
            let mut damaged = bytes.clone();
            for _ in 0..1 + state % 3 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let at = (state >> 33) as usize % damaged.len();
                damaged[at] = (state >> 20) as u8;
            }
            survives(&damaged);
        }
    }
}

#[test]
fn attributes_that_share_others_are_bounded() {
    // Strings, dialects and one array of two copies of the next attribute, fifty times.
    let bytes = doubling_arrays(50);
    let error = bytecode::read(&bytes).unwrap_err();
    assert!(error.message.contains("expand to far more"), "{error}");
}

/// A module whose attribute is an array of two copies of an array of two copies, and so on.
fn doubling_arrays(levels: u8) -> Vec<u8> {
    let varint = |value: usize| -> Vec<u8> {
        match value {
            0..128 => vec![(value << 1 | 1) as u8],
            _ => vec![(value << 2 | 2) as u8, (value >> 6) as u8],
        }
    };
    let section = |number: u8, content: &[u8]| [&[number][..], &varint(content.len()), content].concat();
    let strings = ["builtin", "module", "a"];
    let mut string_section = varint(strings.len());
    strings.iter().rev().for_each(|string| string_section.extend(varint(string.len() + 1)));
    strings.iter().for_each(|string| string_section.extend([string.as_bytes(), &[0]].concat()));
    let dialects = [varint(1), varint(0), varint(0), varint(1), varint(1)].concat();
    // Attribute 0 is an unknown location, 1 the dictionary, 2 its key, and 3 onwards the arrays.
    let mut attributes = vec![
        varint(15),
        [varint(1), varint(1), varint(2), varint(3)].concat(),
        [varint(2), varint(2)].concat(),
    ];
    for level in 0..levels {
        let next = usize::from(level) + 4;
        attributes.push([varint(0), varint(2), varint(next), varint(next)].concat());
    }
    attributes.push(varint(7));
    let mut offsets = [varint(attributes.len()), varint(0), varint(0), varint(attributes.len())].concat();
    attributes.iter().for_each(|attribute| offsets.extend(varint(attribute.len() << 1 | 1)));
    let ops =
        [varint(1 << 1), varint(0), vec![1 | 16], varint(0), varint(1), varint(1 << 1), varint(0)].concat();
    [
        b"ML\xefR\x01test\0".to_vec(),
        section(1, &dialects),
        section(2, &attributes.concat()),
        section(3, &offsets),
        section(4, &ops),
        section(0, &string_section),
    ]
    .concat()
}
