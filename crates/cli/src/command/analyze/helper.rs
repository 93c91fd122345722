//! Kernels that prepare operands, such as the quantization kernel on a GPU.

use std::path::{Path, PathBuf};

use anyhow::Result;
use octile_dump::{
    checks::{CheckId, Finding},
    facts::Facts,
};
use serde::Serialize;

use super::{
    TextFile,
    contents::{Content, sources},
    gate, judge,
    manifest::CompiledFigures,
    texts, troubles_of,
};

/// A kernel that runs right before the matmul kernel.
#[derive(Debug, Serialize)]
pub struct Helper {
    /// Its folder in that of the version.
    pub name: String,
    /// Facts from its files.
    pub facts: Facts,
    /// Verdicts on the checks that it must pass.
    pub findings: Vec<Finding>,
    /// Its files.
    #[serde(skip)]
    pub files: Vec<PathBuf>,
    /// Its text files.
    #[serde(skip)]
    pub texts: Vec<TextFile>,
}

impl Helper {
    /// Reads the dumps of a folder.
    pub fn read(name: String, contents: Vec<Content>, figures: Option<&CompiledFigures>) -> Result<Self> {
        let mut facts = Facts::gather(&sources(&contents));
        gate::require_one_kernel(Path::new(&name), &facts, None)?;
        facts.shared_bytes = figures.and_then(|figures| figures.shared_bytes);
        let mut findings = judge(&facts, None);
        findings.retain(|finding| CheckId::REQUIRED_OF_GPU_HELPER.contains(&finding.check));
        let files = contents.iter().map(|content| content.path.clone()).collect();
        let texts = texts(contents, &facts);
        Ok(Self { name, facts, findings, files, texts })
    }

    /// Lists damaged and unknown files, one sentence each.
    pub fn troubles(&self) -> impl Iterator<Item = String> {
        self.facts.files.iter().flat_map(troubles_of)
    }

    /// Returns the kernel's name, or that of its folder.
    pub fn entry(&self) -> &str {
        self.facts.launch.as_ref().map_or(&self.name, |launch| &launch.entry)
    }
}
