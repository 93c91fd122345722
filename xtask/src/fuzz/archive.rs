//! The committed corpus: `TARGET/INPUT` in one compressed tar archive.

use std::{
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result, bail};
use flate2::{Compression, read::GzDecoder, write::GzEncoder};

/// Limit on the archive, which every clone of the repository downloads.
const MAX_BYTES: usize = 1_500_000;

/// Unpacks the archive into `folder`.
pub(super) fn unpack(archive: &Path, folder: &Path) -> Result<()> {
    let file = File::open(archive).with_context(|| format!("cannot read {}", archive.display()))?;
    fs::create_dir_all(folder)?;
    let mut inputs = tar::Archive::new(GzDecoder::new(file));
    inputs.unpack(folder).with_context(|| format!("cannot unpack {}", archive.display()))
}

/// Packs the inputs, deterministically.
pub(super) fn pack(folder: &Path, archive: &Path) -> Result<()> {
    let compressed = GzEncoder::new(Vec::new(), Compression::best());
    let mut tar = tar::Builder::new(compressed);
    let inputs = inputs(folder)?;
    for path in &inputs {
        let mut bytes = Vec::new();
        File::open(path)?.read_to_end(&mut bytes)?;
        let mut header = tar::Header::new_ustar();
        header.set_mode(0o644);
        header.set_size(bytes.len() as u64);
        tar.append_data(&mut header, path.strip_prefix(folder)?, &bytes[..])?;
    }
    let bytes = tar.into_inner()?.finish()?;
    if bytes.len() > MAX_BYTES {
        bail!(
            "the {} inputs take {} bytes, above the limit of {MAX_BYTES}: remove large ones",
            inputs.len(),
            bytes.len()
        );
    }
    fs::write(archive, &bytes).with_context(|| format!("cannot write {}", archive.display()))?;
    println!("== {}: {} inputs, {} bytes", archive.display(), inputs.len(), bytes.len());
    Ok(())
}

/// Lists the inputs of every target, sorted.
fn inputs(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut inputs = Vec::new();
    for target in fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        for input in fs::read_dir(target?.path())? {
            inputs.push(input?.path());
        }
    }
    inputs.sort();
    Ok(inputs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_inputs_give_the_same_bytes() {
        let place = tempfile::TempDir::new().unwrap();
        let at = |name: &str| place.path().join(name);
        for (target, input) in [("ptx", "b"), ("ptx", "a"), ("hlo", "c")] {
            fs::create_dir_all(at("corpus").join(target)).unwrap();
            fs::write(at("corpus").join(target).join(input), input.repeat(9)).unwrap();
        }
        pack(&at("corpus"), &at("first.tar.gz")).unwrap();
        unpack(&at("first.tar.gz"), &at("again")).unwrap();
        assert_eq!(fs::read(at("again/ptx/b")).unwrap(), b"bbbbbbbbb");
        pack(&at("again"), &at("second.tar.gz")).unwrap();
        assert_eq!(fs::read(at("first.tar.gz")).unwrap(), fs::read(at("second.tar.gz")).unwrap());
    }
}
