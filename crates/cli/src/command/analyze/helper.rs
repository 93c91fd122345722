//! Kernels that prepare operands for that of a version, such as the one that quantizes activations on a GPU.

use std::path::{Path, PathBuf};

use anyhow::Result;
use octile_dump::{
    checks::{CheckId, Finding},
    facts::Facts,
};
use serde::Serialize;

use super::{
    Text,
    contents::{Content, sources},
    gate, judge,
    manifest::Figures,
    texts, troubles_of,
};

/// A kernel that runs right before that of a version.
#[derive(Debug, Serialize)]
pub struct Helper {
    /// Its folder within that of the version.
    pub name: String,
    /// What its files say. They are named with the folder.
    pub facts: Facts,
    /// What became of its promises: no other claim is about it.
    pub findings: Vec<Finding>,
    /// Its files.
    #[serde(skip)]
    pub files: Vec<PathBuf>,
    /// The files that are text, by name.
    #[serde(skip)]
    pub texts: Vec<Text>,
}

impl Helper {
    /// Reads the dumps of a folder.
    pub fn read(name: String, contents: Vec<Content>, figures: Option<&Figures>) -> Result<Self> {
        let mut facts = Facts::gather(&sources(&contents));
        gate::require_one_kernel(Path::new(&name), &facts, None)?;
        facts.shared_bytes = figures.and_then(|figures| figures.shared_bytes);
        let mut findings = judge(&facts, None);
        findings.retain(|finding| CheckId::REQUIRED_OF_GPU_HELPER.contains(&finding.check));
        let files = contents.iter().map(|content| content.path.clone()).collect();
        let texts = texts(contents, &facts);
        Ok(Self { name, facts, findings, files, texts })
    }

    /// Its files that cannot be relied on, one sentence each.
    pub fn troubles(&self) -> impl Iterator<Item = String> {
        self.facts.files.iter().flat_map(troubles_of)
    }

    /// What the kernel calls itself, else the name of its folder.
    pub fn entry(&self) -> &str {
        self.facts.launch.as_ref().map_or(&self.name, |launch| &launch.entry)
    }
}
