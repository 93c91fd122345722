//! Compares codes and scales with those of transformers, computed by `golden/make.py`.

mod common;

use common::{Blob, Tensors, hash32, read_file, run, write_file};
use octile_checkpoint::{Quantize, Request, ScaleKind};
use safetensors::Dtype;
use serde::Deserialize;

#[derive(Deserialize)]
struct Golden {
    cases: Vec<Case>,
}

#[derive(Deserialize)]
struct Case {
    name: String,
    kind: String,
    rows: usize,
    cols: usize,
    seed: u64,
    smallest_exponent: u32,
    exponents: u32,
    ue8m0: bool,
    codes_crc32: u32,
    scale_bits: Vec<u32>,
}

impl Case {
    fn weight(&self) -> Blob {
        let (mut data, mut dtype) = (Vec::new(), Dtype::BF16);
        for index in 0..self.rows * self.cols {
            let h = hash32(self.seed, index as u64);
            let sign = h >> 31;
            let exponent = self.smallest_exponent + (h >> 23 & 0xff) % self.exponents.max(1);
            match self.kind.as_str() {
                "bf16" => data.extend(((sign << 15 | exponent << 7 | h & 0x7f) as u16).to_le_bytes()),
                "bf16-power" => data.extend(((sign << 15 | exponent << 7) as u16).to_le_bytes()),
                "f16" => {
                    dtype = Dtype::F16;
                    data.extend(((sign << 15 | exponent << 10 | h & 0x3ff) as u16).to_le_bytes());
                }
                "f32" => {
                    dtype = Dtype::F32;
                    data.extend((sign << 31 | exponent << 23 | h & 0x7f_ffff).to_le_bytes());
                }
                "f32-edge" => {
                    dtype = Dtype::F32;
                    let (row, col) = (index / self.cols, index % self.cols);
                    let block = (row / 128 * (self.cols / 128) + col / 128) as u32;
                    let edge = ((127 + 8 + block - 12) << 23 | 0x60_0000) + block - 8;
                    let small = sign << 31 | (127 + block - 16) << 23 | h & 0x7f_ffff;
                    let bits = if row % 128 == 0 && col % 128 == 0 { edge } else { small };
                    data.extend(bits.to_le_bytes());
                }
                "zero" => data.extend([0, 0]),
                other => panic!("unknown kind {other}"),
            }
        }
        Blob { dtype, shape: vec![self.rows, self.cols], data }
    }
}

#[test]
fn codes_and_scales_are_those_of_transformers() {
    let golden: Golden = serde_json::from_str(include_str!("golden/quantizer.json")).unwrap();
    assert!(golden.cases.len() >= 20);
    for case in &golden.cases {
        let place = tempfile::tempdir().unwrap();
        let [input, output] = ["in.safetensors", "out.safetensors"].map(|name| place.path().join(name));
        write_file(&input, &Tensors::from([("x.weight".to_owned(), case.weight())]));
        let scales = if case.ue8m0 { ScaleKind::Ue8m0 } else { ScaleKind::F32 };
        run(&input, &output, &Request::Quantize(Quantize { scales, ..Quantize::default() })).unwrap();
        let written = read_file(&output);
        let bits = written["x.weight_scale_inv"].data.as_chunks().0.iter().map(|b| u32::from_le_bytes(*b));
        assert_eq!(bits.collect::<Vec<_>>(), case.scale_bits, "{} {}", case.name, case.ue8m0);
        let codes = crc32fast::hash(&written["x.weight"].data);
        assert_eq!(codes, case.codes_crc32, "{} {}", case.name, case.ue8m0);
    }
}
