//! The layers of a model in `octile test --model` and `octile bench --model`.

use std::fmt::Write;

use super::{Text, emit, heading, one_line};
use crate::command::model::{Model, ModelTimings};

/// Prints what is tested.
pub fn layers(model: &Model) {
    let mut text = heading(format!("Layers of {}", one_line(&model.path)));
    text += match model.is_fp8 {
        true => "fp8 weights of the checkpoint:\n",
        false => "The checkpoint is not fp8: each weight is quantized when it is loaded.\n",
    };
    for layer in &model.layers {
        let _ = writeln!(text, "  {:>5} x {} [{}, {}]", layer.count, one_line(&layer.name), layer.n, layer.k);
    }
    text += "The first of each is checked with its real weight and random activations.\n";
    emit(&text);
}

/// Prints the times of all layers.
pub fn timings(timings: &ModelTimings) {
    emit(&text(timings));
}

fn text(timings: &ModelTimings) -> Text {
    let mut text = heading(format!("MODEL {}", one_line(&timings.path)));
    if !timings.is_fp8 {
        text += "The checkpoint is not fp8: these are the layers that `octile quantize` would quantize.\n";
    }
    text += "Layers are timed one by one, unfused: projections that an engine merges are separate here.\n";
    if let Some((active, all)) = timings.experts {
        let _ = writeln!(
            text,
            "A token has {active} of {all} experts; each expert is timed with its share of the tokens."
        );
    }
    for pass in &timings.passes {
        let s = if pass.tokens == 1 { "" } else { "s" };
        let _ = writeln!(text, "\n{} token{s}:", pass.tokens);
        let _ = writeln!(
            text,
            "  {:<44} {:>5} {:>13} {:>6} {:>10} {:>10} {:>6}",
            "layer", "count", "N x K", "use", "ms each", "ms all", "%"
        );
        for timing in &pass.layers {
            let layer = &timing.layer;
            let _ = writeln!(
                text,
                "  {:<44} {:>5} {:>13} {:>6} {:>10.4} {:>10.3} {:>6.1}",
                one_line(&layer.name),
                layer.active,
                format!("{} x {}", layer.n, layer.k),
                timing.strategy.to_string(),
                timing.median_ms,
                timing.all_ms,
                100.0 * timing.all_ms / pass.total_ms
            );
        }
        let _ = writeln!(
            text,
            "  all linear layers: {:.3} ms, {:.3} ms per token, at most {:.1} tokens/s",
            pass.total_ms,
            pass.ms_per_token,
            1e3 / pass.ms_per_token
        );
    }
    text
}
