//! Both fp8 codecs give the very bits that ml_dtypes gives, for every input there is: all 256 codes decoded,
//! all f16, all bf16 and all 2^32 f32 encoded. `fixtures/make_fp8_fixtures.py` makes the expectations and
//! explains their form.

use std::ops::Range;

use half::{bf16, f16};
use octile_core::{E4m3, E5m2};
use rayon::prelude::*;

/// Neighbouring inputs with the same result.
struct Run {
    inputs: Range<u64>,
    result: u32,
}

/// Reads a fixture; `inputs` is how many bit patterns the source has.
fn parse_runs(text: &str, inputs: u64) -> Vec<Run> {
    let hex = |digits| u32::from_str_radix(digits, 16).expect("a hexadecimal number");
    let lines: Vec<(u64, u32)> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split_once(' ').expect("two numbers on a line"))
        .map(|(first, result)| (u64::from(hex(first)), hex(result)))
        .collect();
    assert_eq!(lines[0].0, 0, "the first run starts at the first input");
    let ends = lines[1..].iter().map(|line| line.0).chain([inputs]);
    let runs = lines.iter().zip(ends).map(|(&(first, result), end)| {
        assert!(first < end, "runs are in ascending order");
        Run { inputs: first..end, result }
    });
    runs.collect()
}

/// Cuts long runs, so that threads share them evenly.
fn pieces(run: Run) -> impl Iterator<Item = Run> {
    const PIECE: u64 = 1 << 22;
    let Run { inputs, result } = run;
    let end = inputs.end;
    let starts = inputs.step_by(PIECE as usize);
    starts.map(move |start| Run { inputs: start..end.min(start + PIECE), result })
}

/// Compares `convert`, from bit pattern to bit pattern, with the fixture, and names inputs that differ.
fn check(text: &str, inputs: u64, convert: impl Fn(u32) -> u32 + Sync) {
    let pieces: Vec<Run> = parse_runs(text, inputs).into_iter().flat_map(pieces).collect();
    let differing: Vec<String> = pieces
        .par_iter()
        .filter_map(|Run { inputs, result }| {
            // No early exit, so that the loop becomes vector code and billions of inputs take seconds.
            let start = inputs.start as u32;
            let offsets = 0..(inputs.end - inputs.start) as u32;
            let differs = |offset: u32| convert(start.wrapping_add(offset)) != *result;
            if !offsets.clone().fold(false, |any, offset| any | differs(offset)) {
                return None;
            }
            let input = start + offsets.clone().find(|&offset| differs(offset))?;
            let got = convert(input);
            Some(format!("from {input:#x} on: got {got:#x}, expected {result:#x}"))
        })
        .collect();
    let shown = differing[..differing.len().min(10)].join("\n");
    assert!(differing.is_empty(), "{} runs differ, among them:\n{shown}", differing.len());
}

macro_rules! codec_matches_ml_dtypes {
    ($module:ident, $type:ident, $name:literal) => {
        mod $module {
            use super::*;

            #[test]
            fn decodes_all_codes() {
                let expected = include_str!(concat!("fixtures/fp8/f32_from_", $name, ".txt"));
                check(expected, 1 << 8, |bits| $type::from_bits(bits as u8).to_f32().to_bits());
            }

            #[test]
            fn encodes_all_f16() {
                let expected = include_str!(concat!("fixtures/fp8/", $name, "_from_f16.txt"));
                check(expected, 1 << 16, |bits| {
                    $type::from_f16(f16::from_bits(bits as u16)).to_bits().into()
                });
            }

            #[test]
            fn encodes_all_bf16() {
                let expected = include_str!(concat!("fixtures/fp8/", $name, "_from_bf16.txt"));
                check(expected, 1 << 16, |bits| {
                    $type::from_bf16(bf16::from_bits(bits as u16)).to_bits().into()
                });
            }

            #[test]
            fn encodes_all_f32() {
                let expected = include_str!(concat!("fixtures/fp8/", $name, "_from_f32.txt"));
                check(expected, 1 << 32, |bits| $type::from_f32(f32::from_bits(bits)).to_bits().into());
            }
        }
    };
}

codec_matches_ml_dtypes!(e4m3, E4m3, "f8e4m3fn");
codec_matches_ml_dtypes!(e5m2, E5m2, "f8e5m2");
