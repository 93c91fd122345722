//! Kernels that prepare operands for that of a version, such as the one that quantizes activations on a GPU.

use std::path::{Path, PathBuf};

use anyhow::Result;
use octile_dump::{
    checks::{CheckId, Finding},
    facts::{Facts, Source},
};
use serde::Serialize;

use super::{
    Text,
    find::{self, file_name},
    judge,
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
    /// Reads those of the named files that are dumps and still there; `None` where none is.
    pub fn read(
        version: &Path,
        name: &str,
        names: &[&str],
        figures: Option<&Figures>,
    ) -> Result<Option<Self>> {
        let files = find::helper(&version.join(name), names);
        if files.is_empty() {
            return Ok(None);
        }
        let content = |path: &PathBuf| Ok((format!("{name}/{}", file_name(path)), find::read(path)?));
        let contents = files.iter().map(content).collect::<Result<Vec<_>>>()?;
        let sources: Vec<_> = contents.iter().map(|(name, bytes)| Source { name, bytes }).collect();
        let mut facts = Facts::gather(&sources);
        facts.shared_bytes = figures.and_then(|figures| figures.shared_bytes);
        let mut findings = judge(&facts, None);
        findings.retain(|finding| CheckId::REQUIRED_OF_GPU_HELPER.contains(&finding.check));
        let texts = texts(contents, &facts);
        Ok(Some(Self { name: name.to_owned(), facts, findings, files, texts }))
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
