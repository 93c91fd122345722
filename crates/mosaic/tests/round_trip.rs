//! Printing what was read gives a text that reads and prints the same again.

use octile_mosaic::parse;

fn texts(folder: &str) -> Vec<(String, String)> {
    let folder = format!("{}/tests/{folder}", env!("CARGO_MANIFEST_DIR"));
    let mut texts: Vec<_> = std::fs::read_dir(&folder)
        .expect("the folder of kernels is there")
        .map(|entry| entry.expect("the folder can be listed").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "mlir"))
        .map(|path| {
            (path.display().to_string(), std::fs::read_to_string(&path).expect("a kernel is readable"))
        })
        .collect();
    texts.sort();
    texts
}

#[test]
fn printing_is_stable() {
    let texts = texts("corpus");
    assert_eq!(texts.len(), 14);
    for (path, text) in texts {
        let module = parse(&text).unwrap_or_else(|error| panic!("{path}:{error}"));
        let printed = module.to_string();
        let again = parse(&printed).unwrap_or_else(|error| panic!("{path}, printed: {error}"));
        assert_eq!(again.to_string(), printed, "{path}");
    }
}
