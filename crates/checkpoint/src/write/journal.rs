//! The journal of finished shards, from which an interrupted run resumes.

use std::{fs::File, io::Read, path::Path, time::UNIX_EPOCH};

use serde::{Deserialize, Serialize};

use crate::{Checkpoint, CheckpointPlan};

/// A finished shard.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Finished {
    pub shard: String,
    pub bytes: u64,
    pub crc32: u32,
}

impl Finished {
    /// Whether the shard in `folder` is still intact.
    pub(super) fn holds(&self, folder: &Path) -> bool {
        let check = || -> std::io::Result<bool> {
            let path = folder.join(&self.shard);
            if !path.symlink_metadata()?.is_file() {
                return Ok(false);
            }
            let mut file = File::open(path)?;
            if file.metadata()?.len() != self.bytes {
                return Ok(false);
            }
            let (mut hasher, mut buffer) = (crc32fast::Hasher::new(), vec![0; 1 << 20]);
            loop {
                match file.read(&mut buffer)? {
                    0 => return Ok(hasher.finalize() == self.crc32),
                    read => hasher.update(&buffer[..read]),
                }
            }
        };
        check().unwrap_or(false)
    }
}

/// Parses a journal. The last line may be cut off.
pub(super) fn parse(journal: &str) -> Vec<Finished> {
    journal.lines().map_while(|line| serde_json::from_str(line).ok()).collect()
}

/// Identifies input, request and output. A run resumes another only if both are identical.
pub(super) fn fingerprint(checkpoint: &Checkpoint, plan: &CheckpointPlan) -> String {
    let mut text = format!("octile {} {:?}\n", env!("CARGO_PKG_VERSION"), plan.request);
    for shard in checkpoint.shards() {
        let modified = shard.modified().and_then(|at| at.duration_since(UNIX_EPOCH).ok());
        let modified = modified.map_or(0, |age| age.as_nanos());
        let path = std::fs::canonicalize(&shard.path).unwrap_or_else(|_| shard.path.clone());
        text += &format!("in {} {} {modified}\n", path.display(), shard.bytes);
    }
    for shard in &plan.shards {
        text += &format!("out {} {} {:08x}\n", shard.name, shard.bytes, crc32fast::hash(&shard.header));
    }
    text
}
