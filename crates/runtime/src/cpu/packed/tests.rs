use octile_core::Mat;

use super::*;

/// Codes that differ from their neighbours and are not zero, and scales that differ.
fn parts([rows, cols]: [usize; 2], quant_block: QuantBlock) -> (Vec<u8>, Vec<f32>) {
    let codes = (0..rows * cols).map(|i| (i % 126 + 1) as u8).collect();
    let scales = quant_block.count(rows) * quant_block.count(cols);
    (codes, (1..=scales).map(|scale| scale as f32).collect())
}

fn packed(shape: [usize; 2], quant_block: QuantBlock) -> Vec<u8> {
    let (codes, scales) = parts(shape, quant_block);
    let weight = WeightView::new(&codes, &scales, shape, quant_block).unwrap();
    let mut out = vec![0xee; PackedLayout::new(shape, quant_block).unwrap().bytes()];
    pack_into(weight, &mut out).unwrap();
    out
}

#[test]
fn every_code_has_its_own_place_and_the_rest_is_zero() {
    for shape @ [rows, cols] in [[37, 131], [1, 1], [64, 64], [300, 1100], [33, 513]] {
        for quant_block in QuantBlock::ALL {
            let bytes = packed(shape, quant_block);
            let view = PackedView::new(&bytes, shape, quant_block).unwrap();
            let (codes, scales) = parts(shape, quant_block);
            assert_eq!(view.unpack(), Ok((codes, scales)), "{shape:?}");
            let panels = 0..rows.div_ceil(PANEL);
            let nonzero = panels.map(|panel| view.codes(panel, 0).iter().filter(|&&code| code != 0).count());
            assert_eq!(nonzero.sum::<usize>(), rows * cols, "{shape:?}");
        }
    }
}

#[test]
fn parts_make_the_same_panels() {
    let (shape @ [rows, cols], quant_block) = ([300, 200], QuantBlock::B128);
    let (codes, scales) = parts(shape, quant_block);
    let codes = Mat::new(&codes, rows, cols).unwrap();
    let weight = QuantizedWeight::from_parts(codes, &scales, quant_block).unwrap();
    let whole = PackedWeight::new(&weight);
    assert_eq!(whole.as_bytes(), packed(shape, quant_block));
    for parts in [2, 3, 7, 10, 64] {
        assert_eq!(
            PackedWeight::made_by(Team::CallersPool, &weight, parts).as_bytes(),
            whole.as_bytes(),
            "{parts}"
        );
    }
}

#[test]
fn panels_can_be_split_and_joined() {
    let (shape, quant_block) = ([300, 200], QuantBlock::B128);
    let whole = packed(shape, quant_block);
    let (codes, _) = parts(shape, quant_block);
    let panel_bytes = PackedLayout::new(shape, quant_block).unwrap().panel_bytes();
    for at in [32, 96, 128, 288] {
        let (first, second) = whole.split_at(at / PANEL * panel_bytes);
        let of = |bytes, rows| PackedView::new(bytes, [rows, 200], quant_block).unwrap().unpack();
        assert_eq!(of(first, at).unwrap().0, codes[..at * 200]);
        match of(second, 300 - at) {
            Ok((second, _)) => assert_eq!(second, codes[at * 200..]),
            Err(refused) => assert!(at % 128 != 0 && matches!(refused, PackedError::SplitBlock { .. })),
        }
    }
}

#[test]
fn other_bytes_are_refused() {
    let (shape, quant_block) = ([40, 200], QuantBlock::B128);
    let refused =
        |bytes: &[u8], shape, block| PackedView::new(bytes, shape, block).map(drop).unwrap_err().to_string();
    let good = packed(shape, quant_block);
    assert!(refused(&good[..good.len() - 64], shape, quant_block).contains("bytes, but"));
    let other = refused(&good, [41, 200], quant_block);
    assert_eq!(
        other,
        "panel 1 of the packed weight has 8 rows, K = 200 and blocks of 128, but 9 rows, K = 200 and \
         blocks of 128 was expected: pass the packed weight of this multiplication"
    );
    assert!(refused(&good, shape, QuantBlock::B256).contains("blocks of 256 was expected"));
    let mut moved = vec![0; good.len() + 8];
    let start = (0..4).find(|at| moved[*at..].as_ptr().addr() % 4 == 1).unwrap();
    moved[start..][..good.len()].copy_from_slice(&good);
    assert!(refused(&moved[start..][..good.len()], shape, quant_block).contains("aligned to 4 bytes"));
    // Row-major codes of the same length.
    let codes = vec![0x38; good.len()];
    assert!(refused(&codes, shape, quant_block).starts_with("panel 0 of the packed weight has no header"));
    for shape in [[0, 1], [1, 0], [usize::MAX, 1], [1, usize::MAX / 16], [usize::MAX, usize::MAX]] {
        assert!(PackedLayout::new(shape, quant_block).is_err(), "{shape:?}");
    }
}

#[test]
fn weights_that_are_not_finite_are_not_packed() {
    let pack = |code, scale: f32| {
        let (codes, scales) = ([code; 8], [scale]);
        pack_into(
            WeightView::new(&codes, &scales, [2, 4], QuantBlock::B128).unwrap(),
            &mut vec![0; PackedLayout::new([2, 4], QuantBlock::B128).unwrap().bytes()],
        )
    };
    assert_eq!(pack(0x38, 1.0), Ok(()));
    assert!(matches!(pack(0x7f, 1.0), Err(PackedError::Quantize(_))));
    assert!(matches!(pack(0x38, f32::NAN), Err(PackedError::Quantize(_))));
}
