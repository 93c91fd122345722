//! Rules that select the tensors to quantize.

use std::fmt;

use globset::{Glob, GlobSet, GlobSetBuilder};
use safetensors::Dtype;

use crate::{
    BLOCK, Quantize,
    error::{CheckpointError, Result},
    read::Tensor,
};

/// Why a tensor is copied unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KeptBecause {
    /// Not a two-dimensional `.weight`: a bias, a norm, a convolution, a buffer.
    NoMatrix,
    /// An embedding.
    Embedding,
    /// The output head.
    Head,
    /// An expert router.
    Router,
    /// A norm.
    Norm,
    /// Not a float wider than 8 bits.
    Dtype(Dtype),
    /// K is not a multiple of 128.
    RaggedK(usize),
    /// Fused experts whose layout is ambiguous.
    UnknownExpertLayout,
    /// Fused experts with a bias, which is not split.
    ExpertBias,
    /// A tensor without elements.
    Empty,
    /// `--skip` matches it.
    Skipped,
    /// `--only` does not match it.
    NotSelected,
    /// It is already quantized.
    AlreadyFp8,
}

impl KeptBecause {
    /// Whether a user would have expected the tensor to be quantized.
    pub fn is_notable(&self) -> bool {
        matches!(self, Self::RaggedK(_) | Self::UnknownExpertLayout | Self::ExpertBias)
    }
}

impl fmt::Display for KeptBecause {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoMatrix => out.write_str("not a weight matrix"),
            Self::Embedding => out.write_str("embedding"),
            Self::Head => out.write_str("output head"),
            Self::Router => out.write_str("router"),
            Self::Norm => out.write_str("norm"),
            Self::Dtype(dtype) => write!(out, "dtype {dtype:?}"),
            Self::RaggedK(cols) => write!(out, "K = {cols} is not a multiple of {BLOCK}"),
            Self::UnknownExpertLayout => {
                out.write_str("fused experts of unknown layout: set --expert-layout")
            }
            Self::ExpertBias => out.write_str("fused experts with a bias"),
            Self::Empty => out.write_str("no elements"),
            Self::Skipped => out.write_str("--skip"),
            Self::NotSelected => out.write_str("not in --only"),
            Self::AlreadyFp8 => out.write_str("already fp8"),
        }
    }
}

/// The user's globs. Built-in rules apply as well.
#[derive(Debug)]
pub(super) struct Rules {
    skip: GlobSet,
    only: Option<GlobSet>,
    only_globs: Vec<Glob>,
}

impl Rules {
    pub(super) fn new(request: &Quantize) -> Result<Self> {
        let parse = |text: &String| {
            Glob::new(text).map_err(|error| CheckpointError::BadGlob {
                glob: text.clone(),
                why: error.kind().to_string(),
            })
        };
        let set = |globs: &[Glob]| {
            let mut builder = GlobSetBuilder::new();
            globs.iter().for_each(|glob| {
                builder.add(glob.clone());
            });
            builder.build().map_err(|error| CheckpointError::BadGlob {
                glob: error.glob().unwrap_or_default().to_owned(),
                why: error.kind().to_string(),
            })
        };
        let skip: Vec<_> = request.skip.iter().map(parse).collect::<Result<_>>()?;
        let only_globs: Vec<_> = request.only.iter().map(parse).collect::<Result<_>>()?;
        let only = if only_globs.is_empty() { None } else { Some(set(&only_globs)?) };
        Ok(Self { skip: set(&skip)?, only, only_globs })
    }

    /// Requires every `--only` glob to match a tensor: otherwise it is a typo.
    pub(super) fn require_matches<'a>(&self, names: impl Iterator<Item = &'a str> + Clone) -> Result<()> {
        for glob in &self.only_globs {
            let matcher = glob.compile_matcher();
            if !names.clone().any(|name| matcher.is_match(name) || matcher.is_match(module(name))) {
                return Err(CheckpointError::OnlyNothing { glob: glob.glob().to_owned() });
            }
        }
        Ok(())
    }

    /// Returns why this tensor is not quantized, if so. Does not look at K.
    pub(super) fn keep(&self, tensor: &Tensor) -> Option<KeptBecause> {
        let (name, module) = (tensor.name.as_str(), module(&tensor.name));
        if tensor.shape.contains(&0) {
            return Some(KeptBecause::Empty);
        }
        if !matches!(tensor.dtype, Dtype::F32 | Dtype::BF16 | Dtype::F16) {
            return Some(KeptBecause::Dtype(tensor.dtype));
        }
        if let Some(reason) = built_in(module) {
            return Some(reason);
        }
        let matches = |set: &GlobSet| set.is_match(name) || set.is_match(module);
        if matches(&self.skip) {
            return Some(KeptBecause::Skipped);
        }
        self.only.as_ref().filter(|only| !matches(only)).map(|_| KeptBecause::NotSelected)
    }
}

/// Module of a weight.
pub(crate) fn module(name: &str) -> &str {
    name.strip_suffix(".weight").unwrap_or(name)
}

/// Matches modules that no inference engine quantizes, by the names models use.
pub(crate) fn built_in(module: &str) -> Option<KeptBecause> {
    let last = module.rsplit('.').next().unwrap_or(module);
    let is_norm = |part: &str| part.contains("norm") || part.starts_with("ln_") || part == "ln";
    if last == "lm_head" || last == "head" || module == "output" {
        Some(KeptBecause::Head)
    } else if matches!(last, "gate" | "shared_expert_gate") || module.split('.').any(|p| p.contains("router"))
    {
        Some(KeptBecause::Router)
    } else if module.split('.').any(|part| part.contains("embed") || part == "wte" || part == "wpe") {
        Some(KeptBecause::Embedding)
    } else if is_norm(last) {
        Some(KeptBecause::Norm)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_real_models_fall_where_they_belong() {
        for (module, expected) in [
            ("lm_head", Some(KeptBecause::Head)),
            ("model.embed_tokens", Some(KeptBecause::Embedding)),
            ("model.layers.3.mlp.gate", Some(KeptBecause::Router)),
            ("model.layers.3.mlp.shared_expert_gate", Some(KeptBecause::Router)),
            ("model.layers.3.feed_forward.router", Some(KeptBecause::Router)),
            ("model.layers.0.block_sparse_moe.gate", Some(KeptBecause::Router)),
            ("model.layers.3.input_layernorm", Some(KeptBecause::Norm)),
            ("model.layers.3.self_attn.q_norm", Some(KeptBecause::Norm)),
            ("model.layers.3.mlp.gate_proj", None),
            ("model.layers.3.mlp.experts.7.gate_proj", None),
            ("model.layers.3.self_attn.kv_a_proj_with_mqa", None),
            ("model.layers.3.mlp.shared_expert.down_proj", None),
        ] {
            assert_eq!(built_in(module), expected, "{module}");
        }
    }
}
