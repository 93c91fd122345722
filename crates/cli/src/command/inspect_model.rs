//! `octile inspect-model`: what a checkpoint holds, what its quantization costs, and what is wrong with it.

use std::path::Path;

use anyhow::Result;
use octile_checkpoint::{Checkpoint, Judge, JudgedLayer, Judgement};
use octile_harness::record::Provenance;
use serde::Serialize;

use super::quantize::Bar;
use crate::{Verdict, args::InspectModelArgs, output::Destination, progress::Progress};

/// The verdict on a checkpoint.
#[derive(Debug, Serialize)]
pub struct ModelReport {
    /// When and by which version.
    #[serde(flatten)]
    pub provenance: Provenance,
    /// The checkpoint, as the user named it.
    pub model: String,
    /// The original, as the user named it.
    pub against: Option<String>,
    /// The verdict.
    #[serde(flatten)]
    pub judgement: Judgement,
}

impl ModelReport {
    /// Whether nothing is wrong.
    pub fn verdict(&self) -> Verdict {
        Verdict::of(self.judgement.defects.is_empty())
    }

    /// The weights that were read, worst signal-to-noise ratio first.
    pub fn worst_first(&self) -> Vec<&JudgedLayer> {
        let mut layers: Vec<_> = self.judgement.layers.iter().filter(|layer| layer.codes.is_some()).collect();
        let ratio = |layer: &JudgedLayer| match layer.snr {
            // Without a finite ratio something is wrong; without noise nothing is.
            None => f64::NEG_INFINITY,
            Some(snr) => snr.db.unwrap_or(f64::INFINITY),
        };
        layers.sort_by(|a, b| ratio(a).total_cmp(&ratio(b)));
        layers
    }
}

/// Where the documents go.
#[derive(Debug)]
pub struct ModelOutputs {
    /// `--json`.
    pub json: Option<Destination>,
    /// `--html`.
    pub html: Option<Destination>,
}

impl ModelOutputs {
    /// Opens the destinations, which must differ, before anything is read.
    pub fn open(args: &InspectModelArgs) -> Result<Self> {
        let json = Destination::open_json(&args.json)?;
        let html = args.html.as_deref().map(Destination::open).transpose()?;
        if [&json, &html].into_iter().flatten().filter(|output| output.is_stdout()).count() > 1 {
            anyhow::bail!(
                "only one of --json and --html can go to standard output: name a file for the other"
            );
        }
        json.as_ref().map_or(Ok(()), |json| json.require_apart(args.html.clone()))?;
        Ok(Self { json, html })
    }

    /// Rejects a destination that is one of the files read.
    pub fn require_apart(&self, checkpoint: &Checkpoint) -> Result<()> {
        let shards = || checkpoint.shards().iter().map(|shard| shard.path.clone());
        let index = || checkpoint.index().map(|index| index.path.clone());
        let config = || checkpoint.is_folder().then(|| checkpoint.path().join("config.json"));
        [&self.json, &self.html]
            .into_iter()
            .flatten()
            .try_for_each(|output| output.require_apart(shards().chain(index()).chain(config())))
    }
}

/// Judges the checkpoint.
pub fn run(args: &InspectModelArgs, outputs: &ModelOutputs) -> Result<ModelReport> {
    let survey = Checkpoint::survey(&args.model)?;
    outputs.require_apart(&survey.checkpoint)?;
    let against = args.against.as_deref().map(Checkpoint::open).transpose()?;
    against.as_ref().map_or(Ok(()), |against| outputs.require_apart(against))?;
    let judge = Judge::new(survey, against)?;
    let bar = Bar(Progress::of_bytes(judge.bytes()));
    let judgement = judge.run(args.threads.map(usize::from), &bar)?;
    let named = |path: &Path| path.to_string_lossy().into_owned();
    Ok(ModelReport {
        provenance: Provenance::now(),
        model: named(&args.model),
        against: args.against.as_deref().map(named),
        judgement,
    })
}
