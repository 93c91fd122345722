//! Degrees of tensor parallelism that the shapes rule out: each device must get whole blocks of a layer.

use super::OutputTensor;
use crate::{BLOCK, read::Config};

/// A degree of tensor parallelism that inference engines reject for these weights.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuledOut {
    /// Number of devices.
    pub degree: usize,
    /// Number of weights that cannot be divided.
    pub weights: usize,
    /// The first of them.
    pub example: String,
    /// Length of the dimension that would be divided.
    pub side: usize,
    /// That dimension: `N` or `K`.
    pub axis: char,
}

const DEGREES: [usize; 4] = [2, 4, 8, 16];

/// How inference engines partition a layer.
enum Split {
    /// Column parallel: outputs are divided.
    Columns,
    /// Row parallel: inputs are divided.
    Rows,
    /// Every device holds the whole layer.
    Replicated,
}

fn split(module: &str) -> Split {
    let last = module.rsplit('.').next().unwrap_or(module);
    match last {
        "o_proj" | "down_proj" | "out_proj" | "dense" | "dense_4h_to_h" | "c_proj" | "fc2" | "w2" | "wo" => {
            Split::Rows
        }
        // Down projections of multi-head latent attention.
        _ if last.contains("_a_proj") => Split::Replicated,
        _ => Split::Columns,
    }
}

/// Degrees that at least one weight rules out.
pub(super) fn ruled_out<'a>(
    weights: impl Iterator<Item = &'a OutputTensor>,
    config: Option<&Config>,
) -> Vec<RuledOut> {
    let heads =
        config.and_then(|config| config.model_number("num_key_value_heads")).filter(|heads| *heads > 0);
    let mut found: Vec<RuledOut> = Vec::new();
    for weight in weights {
        let &[rows, cols] = &weight.shape[..] else { continue };
        let module = weight.name.trim_end_matches(".weight");
        for degree in DEGREES {
            let (side, axis, parts) = match split(module) {
                Split::Rows => (cols, 'K', degree),
                Split::Columns => {
                    let is_kv = module.ends_with("k_proj") || module.ends_with("v_proj");
                    // Engines replicate KV heads once there are fewer of them than devices.
                    (rows, 'N', heads.filter(|_| is_kv).map_or(degree, |heads| degree.min(heads)))
                }
                Split::Replicated => continue,
            };
            if side.is_multiple_of(parts * BLOCK) {
                continue;
            }
            match found.iter_mut().find(|other| other.degree == degree) {
                Some(other) => other.weights += 1,
                None => found.push(RuledOut { degree, weights: 1, example: weight.name.clone(), side, axis }),
            }
        }
    }
    found.sort_by_key(|found| found.degree);
    found
}
