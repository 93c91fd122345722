//! Results are bitwise identical over repeats, thread counts, strategies and reused workspaces.

mod common;

use common::{Case, Element, X_KINDS, cpu, isas};
use octile_core::sample::Activations;
use octile_runtime::cpu::{
    Activation, ActivationKind, ActivationView, Cpu, FloatKind, MatMut, Problem, QuantBlock,
    ScaleGranularity, ScaleLayout, Strategy, Workspace, available,
};

fn bits(values: Vec<f32>) -> Vec<u32> {
    values.into_iter().map(Element::bits).collect()
}

#[test]
fn results_do_not_depend_on_repeats_threads_or_strategy() {
    for (shape, quant_block) in [
        ((1, 300, 700), QuantBlock::B128),
        ((37, 130, 1100), QuantBlock::B256),
        ((280, 90, 520), QuantBlock::B512),
    ] {
        let (m, n, k) = shape;
        for x in X_KINDS {
            let case = Case::new(Problem::new(m, n, k, quant_block).unwrap().with_x(x), 5);
            for isa in isas() {
                let one = cpu(isa, 1);
                let mut workspace = Workspace::new();
                let expected = bits(case.multiply(&one, Strategy::Strip, &mut workspace));
                for threads in 1..=4 {
                    let cpu = cpu(isa, threads);
                    for strategy in Strategy::ALL {
                        // The workspace is dirty from the previous call.
                        let result = bits(case.multiply(&cpu, strategy, &mut workspace));
                        assert!(result == expected, "{} {isa} {strategy} {threads} threads", case.problem());
                    }
                }
            }
        }
    }
}

#[test]
fn results_do_not_depend_on_the_layout_of_the_scales() {
    let shapes = [((1, 70, 700), QuantBlock::B128), ((37, 130, 1100), QuantBlock::B256)];
    for ((m, n, k), quant_block) in shapes {
        for granularity in [ScaleGranularity::Token, ScaleGranularity::Block] {
            let problem =
                Problem::new(m, n, k, quant_block).unwrap().with_x(ActivationKind::Fp8(granularity));
            let case = Case::new(problem, 7);
            let Activations::Fp8(x) = &case.operands.x else { panic!("codes were asked for") };
            let (rows, k_blocks) = problem.x_scale_shape().unwrap();
            for isa in isas() {
                let cpu = cpu(isa, 2);
                let expected = bits(case.multiply(&cpu, Strategy::Strip, &mut Workspace::new()));
                for (row, k_stride) in [(1, rows), (1, rows + 3), (k_blocks + 2, 1), (2, 2 * rows)] {
                    let layout = ScaleLayout { row, k: k_stride };
                    let mut scales = vec![f32::NAN; layout.span((rows, k_blocks))];
                    for (at, scale) in x.scales().iter().enumerate() {
                        scales[at / k_blocks * row + at % k_blocks * k_stride] = *scale;
                    }
                    let (layout, shape) = (Some(layout), [m, k]);
                    let x = ActivationView::new(x.codes(), &scales, layout, shape, quant_block, granularity)
                        .unwrap();
                    for strategy in Strategy::ALL {
                        let (mut out, weight) = (vec![f32::NAN; m * n], case.weight(strategy));
                        let result = MatMut::new(&mut out, m, n).unwrap();
                        let mut workspace = Workspace::new();
                        cpu.multiply(strategy, Activation::Fp8(x), weight, result, &mut workspace).unwrap();
                        assert!(bits(out) == expected, "{problem} {isa} {strategy} {layout:?}");
                    }
                }
            }
        }
    }
}

/// With one ISA for any number of rows.
#[test]
fn rows_do_not_depend_on_the_rows_beside_them() {
    let quantized = ActivationKind::Quantized(FloatKind::F32, ScaleGranularity::Token);
    for x in [quantized, ActivationKind::Plain(FloatKind::Bf16), ActivationKind::Plain(FloatKind::F32)] {
        let problem = Problem::new(70, 130, 1100, QuantBlock::B128).unwrap().with_x(x);
        let all = Case::new(problem, 3);
        let invariant = Cpu::builder().threads(1).batch_invariant().build().unwrap();
        for cpu in isas().into_iter().map(|isa| cpu(isa, 1)).chain([invariant]) {
            let expected = bits(all.multiply(&cpu, Strategy::Strip, &mut Workspace::new()));
            for rows in [1, 2, 5, 16, 33] {
                let few = all.first_rows(rows);
                let result = bits(few.multiply(&cpu, Strategy::Strip, &mut Workspace::new()));
                assert!(result == expected[..result.len()], "{x} {} {rows} rows", cpu.dispatch());
            }
        }
    }
}

#[test]
fn one_workspace_serves_any_order_of_problems() {
    let cases: Vec<Case> = [(64, 64, 640), (1, 500, 64), (200, 32, 300), (3, 3, 3)]
        .into_iter()
        .enumerate()
        .map(|(seed, (m, n, k))| {
            let problem = Problem::new(m, n, k, QuantBlock::B128).unwrap().with_x(X_KINDS[seed * 2]);
            Case::new(problem, seed as u64)
        })
        .collect();
    let cpu = cpu(*available().last().unwrap(), 2);
    let mut workspace = Workspace::new();
    for round in 0..3 {
        for at in 0..cases.len() {
            let case = &cases[(at * 3 + round) % cases.len()];
            let used = bits(case.multiply(&cpu, Strategy::Strip, &mut workspace));
            assert_eq!(used, bits(case.multiply(&cpu, Strategy::Strip, &mut Workspace::new())));
        }
    }
}
