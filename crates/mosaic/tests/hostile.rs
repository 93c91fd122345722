//! Damaged text gets an error, never a panic: in the parser, the verifier, and the interpreter.

mod support;

use octile_core::{device::tpu::TpuChip, sample::Rng};
use octile_mosaic::{
    interpret::{Options, Tensor, simulate},
    parse,
    verify::verify,
};
use support::{folder, rates, tensors};

fn texts(folder_name: &str) -> Vec<(String, String)> {
    let mut texts: Vec<_> = std::fs::read_dir(folder(folder_name))
        .expect("the folder of kernels is there")
        .map(|entry| entry.expect("the folder can be listed").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "mlir"))
        .map(|path| {
            let name = path.file_stem().expect("a file has a name").to_string_lossy().into_owned();
            (name, std::fs::read_to_string(&path).expect("a kernel is readable"))
        })
        .collect();
    texts.sort();
    texts
}

fn below(rng: &mut Rng, end: usize) -> usize {
    (rng.next_u64() % end.max(1) as u64) as usize
}

/// Pieces that mean something to the parser, to be put where they do not belong.
const PIECES: [&str; 16] = [
    "<",
    ">",
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    "%0",
    "\"",
    "loc(",
    "dense<",
    "-",
    "0x",
    "99999999999999999999",
    "é",
];

/// The text with some characters gone, doubled or replaced.
fn damaged(text: &str, rng: &mut Rng) -> String {
    let mut characters: Vec<char> = text.chars().collect();
    for _ in 0..=below(rng, 3) {
        let at = below(rng, characters.len());
        let end = (at + 1 + below(rng, 12)).min(characters.len());
        match below(rng, 4) {
            0 => drop(characters.drain(at..end)),
            1 => {
                let piece: Vec<char> = PIECES[below(rng, PIECES.len())].chars().collect();
                characters.splice(at..at, piece);
            }
            2 => {
                let copy = characters[at..end].to_vec();
                characters.splice(at..at, copy);
            }
            _ => characters.truncate(at.max(1)),
        }
    }
    characters.into_iter().collect()
}

#[test]
fn damaged_text_is_refused_or_read() {
    let chip = TpuChip::named("tpu7x").unwrap();
    let mut rng = Rng::new(11, 0);
    let (mut read, mut refused) = (0, 0);
    for (_, text) in texts("corpus").into_iter().chain(texts("pallas")) {
        for _ in 0..60 {
            match parse(&damaged(&text, &mut rng)) {
                Ok(module) => {
                    read += 1;
                    verify(&module, chip);
                    let printed = module.to_string();
                    parse(&printed)
                        .unwrap_or_else(|error| panic!("what was read does not print soundly: {error}"));
                }
                Err(error) => {
                    refused += 1;
                    assert!(error.place.line >= 1 && !error.message.is_empty());
                }
            }
        }
    }
    assert!(read > 30 && refused > 1000, "{read} read, {refused} refused");
}

/// The text with one value used in the place of another.
fn miswired(text: &str, rng: &mut Rng) -> String {
    let names: Vec<(usize, &str)> = text
        .match_indices('%')
        .map(|(at, _)| {
            let end = text[at + 1..].find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(0);
            (at, &text[at..at + 1 + end])
        })
        .collect();
    let (at, old) = names[below(rng, names.len())];
    let new = names[below(rng, names.len())].1;
    format!("{}{new}{}", &text[..at], &text[at + old.len()..])
}

#[test]
fn miswired_kernels_run_or_are_refused() {
    let mut rng = Rng::new(12, 0);
    let (mut ran, mut refused) = (0, 0);
    for (name, text) in texts("pallas") {
        let operands: Vec<Tensor> = tensors("pallas", &name)
            .into_iter()
            .filter(|(name, _)| name.starts_with("in"))
            .map(|(_, t)| t)
            .collect();
        for _ in 0..60 {
            let Ok(module) = parse(&miswired(&text, &mut rng)) else { continue };
            // Loops whose bounds are miswired may run for very long.
            let options = Options { max_operations: 1 << 20, ..Options::new(rates()) };
            match simulate(&module, &operands, &options) {
                Ok(_) => ran += 1,
                Err(error) => {
                    refused += 1;
                    assert!(!error.to_string().is_empty());
                }
            }
        }
    }
    assert!(ran > 50 && refused > 50, "{ran} ran, {refused} refused");
}

/// Words and numbers that have a meaning, but another one than what they are put in the place of.
const WORDS: [&str; 24] = [
    "f32",
    "bf16",
    "i1",
    "i8",
    "i32",
    "i64",
    "index",
    "f8E4M3FN",
    "vector",
    "memref",
    "tensor",
    "true",
    "false",
    "add",
    "maximumf",
    "to_nearest_even",
    "vmem",
    "hbm",
    "smem",
    "semaphore_mem",
    "tpu.yield",
    "scf.yield",
    "arith.addf",
    "tpu.vector_store",
];
const NUMBERS: [&str; 10] =
    ["0", "1", "2", "3", "7", "128", "65536", "2147483647", "4294967296", "9223372036854775807"];

/// The text with one word or number in the place of another of its kind.
fn misspelled(text: &str, rng: &mut Rng) -> String {
    let is_word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.');
    let mut words: Vec<(usize, usize)> = Vec::new();
    let mut start = None;
    for (at, c) in text.char_indices().chain([(text.len(), ' ')]) {
        // Extents run into one another: `8x128xf32`.
        let inside = is_word(c) && c != 'x';
        match (inside, start) {
            (true, None) => start = Some(at),
            (false, Some(from)) => {
                words.push((from, at));
                start = None;
            }
            _ => {}
        }
    }
    let (from, to) = words[below(rng, words.len())];
    let number = text[from..to].bytes().all(|b| b.is_ascii_digit());
    let new = if number { NUMBERS[below(rng, NUMBERS.len())] } else { WORDS[below(rng, WORDS.len())] };
    format!("{}{new}{}", &text[..from], &text[to..])
}

#[test]
fn misspelled_kernels_run_or_are_refused() {
    let mut rng = Rng::new(13, 0);
    let chip = TpuChip::named("tpu7x").unwrap();
    let (mut ran, mut refused) = (0, 0);
    for (name, text) in texts("pallas") {
        let operands: Vec<Tensor> = tensors("pallas", &name)
            .into_iter()
            .filter(|(name, _)| name.starts_with("in"))
            .map(|(_, t)| t)
            .collect();
        for _ in 0..rounds() {
            let mut changed = text.clone();
            (0..=below(&mut rng, 2)).for_each(|_| changed = misspelled(&changed, &mut rng));
            let Ok(module) = parse(&changed) else {
                refused += 1;
                continue;
            };
            verify(&module, chip);
            let options = Options { max_operations: 1 << 18, ..Options::new(rates()) };
            match simulate(&module, &operands, &options) {
                Ok(_) => ran += 1,
                Err(error) => {
                    refused += 1;
                    assert!(!error.to_string().is_empty());
                }
            }
        }
    }
    assert!(ran > 50 && refused > 50, "{ran} ran, {refused} refused");
}

/// How often each kernel is damaged; more for a longer search.
fn rounds() -> usize {
    std::env::var("OCTILE_FUZZ_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(40)
}

#[test]
fn an_unknown_operation_is_named_with_its_line_and_what_is_supported() {
    let text = "module {\n  func.func @k(%x: memref<8x128xf32, #tpu.memory_space<vmem>>) {\n    \
                %0 = \"tpu.sparkle\"() : () -> i32\n    \"tpu.sem_signal\"(%0) : (i32) -> ()\n    return\n  }\n}";
    let error = simulate(&parse(text).unwrap(), &[], &Options::new(rates())).unwrap_err().to_string();
    assert!(error.starts_with("3:5: 'tpu.sparkle' is not supported; supported operations: "), "{error}");
    assert!(error.contains("tpu.matmul") && error.contains("vector.multi_reduction"), "{error}");
}

#[test]
fn operands_that_do_not_fit_are_named() {
    let (name, text) = texts("pallas").remove(0);
    let operands: Vec<Tensor> = tensors("pallas", &name)
        .into_iter()
        .filter(|(name, _)| name.starts_with("in"))
        .map(|(_, t)| t)
        .collect();
    let module = parse(&text).unwrap();
    let wrong = Tensor { shape: vec![3, 5], bytes: vec![0; 60].into(), ..operands[0].clone() };
    let error = simulate(&module, &[wrong], &Options::new(rates())).unwrap_err().to_string();
    assert!(error.contains("[3, 5]"), "{error}");
}
