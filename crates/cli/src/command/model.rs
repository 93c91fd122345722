//! The layers of a model as problems of `octile test`, `octile bench` and `octile tune`.

use std::{collections::HashSet, path::Path};

use anyhow::{Context, Result, bail};
use octile_checkpoint::{Checkpoint, CheckpointError, LinearLayer, without_numbers};
use octile_core::{Problem, QuantBlock, QuantizedWeight, Strategy};
use octile_harness::{
    HarnessError,
    bench::BenchReport,
    case::Case,
    shapes::{ACTIVE_EXPERTS, EXPERTS, ModelConfig, Routing},
};
use serde::Serialize;

use super::work::within;
use crate::{
    args::ProblemArgs,
    input,
    print::{self, one_line, shown},
};

/// Rows of activations if `--tokens` is not given.
const TOKENS: [usize; 3] = [1, 16, 512];

/// No layer has more.
const MOST_EXPERTS: usize = 1 << 20;

/// The distinct linear layers of a model.
#[derive(Debug)]
pub struct Model {
    /// The checkpoint, as the user named it.
    pub path: String,
    /// Distinct layers, in the order of the files.
    pub layers: Vec<ModelLayer>,
    /// Whether the weights are fp8 in the checkpoint; otherwise they are quantized when loaded.
    pub is_fp8: bool,
    /// How tokens reach experts, if it has any.
    routing: Option<Routing>,
    checkpoint: Checkpoint,
}

/// A layer of which the model has several.
#[derive(Debug, Clone, Serialize)]
pub struct ModelLayer {
    /// Its module, with `*` for the numbers of layers and experts.
    pub name: String,
    /// How often the model has it.
    pub count: usize,
    /// How often it runs in a forward pass: experts without rows do not.
    pub active: usize,
    /// Outputs.
    pub n: usize,
    /// Inputs.
    pub k: usize,
    /// How tokens reach it, of one of several experts.
    #[serde(skip)]
    routing: Option<Routing>,
    /// The first one, whose weight is tested.
    #[serde(skip)]
    first: LinearLayer,
}

impl ModelLayer {
    /// The layer in a forward pass of so many tokens.
    fn with_tokens(&self, tokens: usize) -> Self {
        let active = match self.routing {
            Some(routing) => (self.count * routing.busy_experts(tokens)).div_ceil(routing.experts),
            None => self.count,
        };
        Self { active, ..self.clone() }
    }

    fn problem(&self, problems: &ProblemArgs, tokens: usize) -> Result<Problem> {
        problem(problems, self.routing, tokens, [self.n, self.k]).with_context(|| self.name.clone())
    }
}

impl Model {
    /// Reads the headers of the checkpoint that `--model` names, if it is given.
    pub(super) fn open(problems: &ProblemArgs) -> Result<Option<Self>> {
        problems.model.as_deref().map(Self::read).transpose()
    }

    fn read(path: &Path) -> Result<Self> {
        let checkpoint = Checkpoint::open(path)?;
        let all = checkpoint.linear_layers()?;
        let number = |keys: &[&str]| {
            let config = checkpoint.config()?;
            let found = keys.iter().find_map(|key| config.model_number(key));
            found.filter(|number| (1..=MOST_EXPERTS).contains(number))
        };
        let numbers = number(&ACTIVE_EXPERTS).zip(number(&EXPERTS));
        let routing = numbers.map(|(active, experts)| Routing { active: active.min(experts), experts });
        let mut layers: Vec<ModelLayer> = Vec::new();
        let mut places = std::collections::HashMap::new();
        let is_fp8 = all.first().is_some_and(LinearLayer::is_fp8);
        for layer in all {
            let name = without_numbers(&layer.module);
            let key = (name.clone(), layer.rows, layer.cols);
            match places.get(&key) {
                Some(&at) => {
                    let known: &mut ModelLayer = &mut layers[at];
                    known.count += 1;
                }
                None => {
                    places.insert(key, layers.len());
                    let (n, k) = (layer.rows, layer.cols);
                    let routing = routing.filter(|_| name.contains("experts.*"));
                    layers.push(ModelLayer { name, count: 1, active: 1, n, k, routing, first: layer });
                }
            }
        }
        if layers.is_empty() {
            return Err(NoLayers(shown(path)).into());
        }
        let routing = routing.filter(|_| layers.iter().any(|layer| layer.routing.is_some()));
        Ok(Self { path: path.to_string_lossy().into_owned(), layers, is_fp8, routing, checkpoint })
    }

    /// The problems to time: every distinct shape with every number of tokens.
    pub(super) fn bench_cases(&self, problems: &ProblemArgs) -> Result<Vec<Case>> {
        within(problems, self.cases(problems)?)
    }

    fn cases(&self, problems: &ProblemArgs) -> Result<Vec<Case>> {
        let mut cases: Vec<Case> = Vec::new();
        for tokens in tokens(problems) {
            for layer in &self.layers {
                let problem = layer.problem(problems, tokens)?;
                match cases.iter_mut().find(|case| case.problem == problem) {
                    Some(case) => case.label += &format!("; {}", layer.name),
                    None => cases.push(Case { label: layer.name.clone(), problem }),
                }
            }
        }
        Ok(cases)
    }

    /// The problems of the model that `--model` names, if it is given: its layers as they are stored, and as
    /// inference engines fuse and divide them, which its configuration tells. Either will do.
    pub(super) fn layers_of(problems: &ProblemArgs, degree: Option<u16>) -> Result<Option<Vec<Case>>> {
        let Some(path) = problems.model.as_deref() else { return Ok(None) };
        let is_config = path.is_file() && path.extension().is_some_and(|extension| extension == "json");
        let config = if is_config { path.to_owned() } else { path.join("config.json") };
        let has_config = config.symlink_metadata().is_ok();
        let has_weights = !is_config && (!path.is_dir() || has_weights(path));
        if !has_config && !has_weights {
            bail!(
                "{} has neither a config.json nor .safetensors files: name the folder of a model",
                shown(path)
            );
        }
        let cases = match degree.map(usize::from) {
            Some(degree) if has_config => configured(problems, &config, degree)?,
            Some(_) => bail!("--tp needs the config.json of the model: name a folder that has one"),
            None if !has_weights => configured(problems, &config, 1)?,
            None => {
                let stored = Self::read(path).and_then(|model| model.cases(problems));
                // One that tells no layers leaves those of the other.
                match (stored, configured(problems, &config, 1)) {
                    (Ok(stored), Ok(fused)) => [stored, fused].concat(),
                    (Ok(stored), Err(error)) => {
                        if has_config {
                            leave_out("fused layers", &error);
                        }
                        stored
                    }
                    (Err(error), Ok(fused)) if is_foreign(&error) => {
                        leave_out("stored layers", &error);
                        fused
                    }
                    (Err(error), _) => return Err(error),
                }
            }
        };
        within(problems, cases).map(Some)
    }

    /// The problems to check: every distinct layer with every number of tokens.
    pub(super) fn test_cases(&self, problems: &ProblemArgs) -> Result<Vec<Case>> {
        let mut cases = Vec::new();
        for layer in &self.layers {
            for tokens in tokens(problems) {
                let problem = layer.problem(problems, tokens)?;
                // Few tokens give experts one row each, whatever their number.
                let is_new = |case: &Case| case.label != layer.first.module || case.problem != problem;
                if cases.iter().all(is_new) {
                    cases.push(Case { label: layer.first.module.clone(), problem });
                }
            }
        }
        within(problems, cases)
    }

    /// Loads the weights of test cases. The last one is kept, because consecutive cases share it.
    pub(super) fn loader(&self) -> impl FnMut(&Case) -> Result<QuantizedWeight, HarnessError> {
        let mut last: Option<(String, QuantizedWeight)> = None;
        move |case| {
            if let Some((name, weight)) = &last
                && *name == case.label
            {
                return Ok(weight.clone());
            }
            last = None;
            let is_named = |layer: &&ModelLayer| layer.first.module == case.label;
            let layer = self.layers.iter().find(is_named).expect("cases are made from layers");
            let weight = layer
                .first
                .load(&self.checkpoint)
                .map_err(|error| HarnessError::Contender(Box::new(error)))?;
            last = Some((case.label.clone(), weight.clone()));
            Ok(weight)
        }
    }
}

/// Says which layers of a model are not searched.
fn leave_out(layers: &str, error: &anyhow::Error) {
    print::say(&one_line(&format!("octile: leaving out the {layers}: {error:#}")));
}

/// Whether weights are whole, but in a format of which octile reads no layers.
fn is_foreign(error: &anyhow::Error) -> bool {
    use CheckpointError as E;
    match error.downcast_ref::<E>() {
        None => error.is::<NoLayers>(),
        Some(error) => matches!(
            error,
            E::UnknownDtype { .. }
                | E::MissingScales { .. }
                | E::TwoScales { .. }
                | E::ScaleShape { .. }
                | E::ScaleDtype { .. }
                | E::OrphanScales { .. }
                | E::UnsupportedFp8 { .. }
                | E::BlockSize { .. }
                | E::OtherQuantization { .. }
                | E::NothingToDo { .. }
        ),
    }
}

/// A checkpoint without weight matrices that octile reads.
#[derive(Debug, thiserror::Error)]
#[error("{0} holds no linear layer: name a checkpoint with weight matrices")]
struct NoLayers(String);

/// Whether a folder has a weight file.
fn has_weights(folder: &Path) -> bool {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.into_iter().any(|entry| entry.path().extension().is_some_and(|found| found == "safetensors"))
}

/// The layers that a configuration describes, on one of `degree` devices.
fn configured(problems: &ProblemArgs, config: &Path, degree: usize) -> Result<Vec<Case>> {
    let bytes = input::read(config, input::MANIFEST_BYTES)?;
    // Some editors begin a file with a byte order mark.
    let text = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes);
    let values: serde_json::Value =
        serde_json::from_slice(text).with_context(|| format!("{} is not JSON", shown(config)))?;
    let model = ModelConfig::from_json(&values).with_context(|| shown(config))?;
    let layers = model.layers(degree).with_context(|| shown(config))?;
    let mut cases = Vec::new();
    for tokens in tokens(problems) {
        for layer in &layers {
            let problem = problem(problems, layer.routing, tokens, [layer.n, layer.k])
                .with_context(|| format!("{}: {}", shown(config), layer.name))?;
            cases.push(Case { label: layer.name.to_owned(), problem });
        }
    }
    Ok(cases)
}

/// Numbers of rows, each once.
fn tokens(problems: &ProblemArgs) -> Vec<usize> {
    let named = if problems.tokens.is_empty() { &TOKENS[..] } else { &problems.tokens };
    let mut seen = HashSet::new();
    named.iter().copied().filter(|&tokens| seen.insert(tokens)).collect()
}

/// A layer with `tokens` rows, or with those that a router gives one of its experts.
fn problem(
    problems: &ProblemArgs,
    routing: Option<Routing>,
    tokens: usize,
    [n, k]: [usize; 2],
) -> Result<Problem> {
    let rows = routing.map_or(tokens, |routing| routing.rows(tokens));
    let problem = Problem::new(rows, n, k, QuantBlock::B128)?;
    Ok(problem.with_x(problems.activation()).with_out(problems.out_kind()))
}

/// Times of the layers of a model.
#[derive(Debug, Serialize)]
pub struct ModelTimings {
    /// The checkpoint.
    pub path: String,
    /// Whether its weights are fp8.
    pub is_fp8: bool,
    /// Experts that are active for a token, and all of a layer.
    pub experts: Option<(usize, usize)>,
    /// One forward pass per number of tokens.
    pub passes: Vec<PassTimings>,
}

/// Times of all linear layers with one number of tokens.
#[derive(Debug, Serialize)]
pub struct PassTimings {
    /// Rows of activations.
    pub tokens: usize,
    /// Sum of the best median times of all layers, in milliseconds.
    pub total_ms: f64,
    /// The same per token.
    pub ms_per_token: f64,
    /// Every distinct layer.
    pub layers: Vec<LayerTiming>,
}

/// The best time of a layer.
#[derive(Debug, Serialize)]
pub struct LayerTiming {
    /// The layer.
    #[serde(flatten)]
    pub layer: ModelLayer,
    /// The strategy to use: the one with the smallest median.
    pub strategy: Strategy,
    /// Its median time for one layer, in milliseconds.
    pub median_ms: f64,
    /// The same for all that a token passes through.
    pub all_ms: f64,
}

impl ModelTimings {
    /// Sums the times of a report over the layers. Shapes that were not timed are left out.
    pub(super) fn new(model: &Model, problems: &ProblemArgs, report: &BenchReport) -> Result<Self> {
        let mut passes = Vec::new();
        for tokens in tokens(problems) {
            let mut layers = Vec::new();
            for layer in &model.layers {
                let layer = layer.with_tokens(tokens);
                let problem = layer.problem(problems, tokens)?;
                let timed = report.cases.iter().find(|case| case.case.problem == problem);
                let Some(winner) = timed.and_then(|case| case.winner()) else { continue };
                let median_ms = winner.stats.median_ms;
                let all_ms = median_ms * layer.active as f64;
                layers.push(LayerTiming { layer, strategy: winner.strategy, median_ms, all_ms });
            }
            let total_ms: f64 = layers.iter().map(|layer| layer.all_ms).sum();
            passes.push(PassTimings { tokens, total_ms, ms_per_token: total_ms / tokens as f64, layers });
        }
        let experts = model.routing.map(|routing| (routing.active, routing.experts));
        Ok(Self { path: model.path.clone(), is_fp8: model.is_fp8, experts, passes })
    }
}
