//! Safetensors files.

use std::path::Path;

use anyhow::{Context, Result, bail};
use safetensors::{SafeTensorError, SafeTensors};

use crate::{input, print::shown};

/// Reads a tensor file.
pub fn bytes(path: &Path) -> Result<Vec<u8>> {
    Ok(input::read(path, input::TENSOR_BYTES)?)
}

/// Parses the tensors of a file.
pub fn tensors<'b>(path: &Path, bytes: &'b [u8]) -> Result<SafeTensors<'b>> {
    let name = shown(path);
    // A JSON header follows the 8 bytes of its length.
    let begins_well = bytes.get(8) == Some(&b'{');
    match SafeTensors::deserialize(bytes) {
        Ok(tensors) => Ok(tensors),
        Err(SafeTensorError::InvalidHeaderLength | SafeTensorError::MetadataIncompleteBuffer)
            if begins_well =>
        {
            bail!(
                "{name} has {} bytes, but its header declares another size: the file is truncated or damaged",
                bytes.len()
            )
        }
        Err(error) if begins_well => {
            Err(error).with_context(|| format!("{name} is a damaged safetensors file"))
        }
        Err(_) => bail!("{name} is not a safetensors file"),
    }
}

#[cfg(test)]
mod tests {
    use safetensors::{Dtype, tensor::TensorView};

    use super::*;

    #[test]
    fn errors_say_what_is_wrong_with_a_file() {
        let data = [0u8; 16];
        let view = TensorView::new(Dtype::F32, vec![4], &data).unwrap();
        let whole = safetensors::serialize([("x", view)], None).unwrap();
        let said = |bytes: &[u8]| tensors(Path::new("f"), bytes).err().map(|error| format!("{error:#}"));
        assert_eq!(said(&whole), None);
        for cut in [whole.len() - 1, 40, 12] {
            let sentence = format!(
                "f has {cut} bytes, but its header declares another size: the file is truncated or damaged"
            );
            assert_eq!(said(&whole[..cut]), Some(sentence));
        }
        for foreign in [&b""[..], b"abc", b"# a text that is longer than a length"] {
            assert_eq!(said(foreign), Some("f is not a safetensors file".to_owned()));
        }
        let mut damaged = whole.clone();
        damaged[9] = b'!';
        assert!(said(&damaged).unwrap().starts_with("f is a damaged safetensors file: "));
    }
}
