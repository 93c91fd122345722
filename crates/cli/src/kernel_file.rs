//! A TPU kernel in any form that JAX, libtpu or Octile writes it.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use octile_mosaic::{
    Module,
    bytecode::{self, is_bytecode},
    interpret::{EmbeddedKernel, embedded_kernels},
    parse,
};

use crate::{
    input::{self, Allowance},
    print::{printable, shown},
};

/// How to get a module that can be read.
pub const FROM_JAX: &str =
    "write `jax.jit(f).trace(*args).lower(lowering_platforms=(\"tpu\",)).as_text()` to a file";

/// A kernel, or the module around one or several.
#[derive(Debug, Clone)]
pub struct KernelFile {
    /// Name of the file in messages.
    pub name: String,
    /// The module.
    pub module: Module,
    /// The text that its lines refer to.
    pub text: String,
}

impl KernelFile {
    /// Reads a kernel from a file, a stream, or a folder of Mosaic dumps.
    pub fn read(path: &Path) -> Result<Self> {
        let path = if path.is_dir() { &dumped_kernel(path)? } else { path };
        Self::of(shown(path), input::read(path, input::DUMP_BYTES)?)
    }

    /// Reads a kernel from the content of a file: bytecode, its base64, or text.
    fn of(name: String, bytes: Vec<u8>) -> Result<Self> {
        if is_bytecode(&bytes) {
            return Self::of_bytecode(name, &bytes);
        }
        let Ok(text) = String::from_utf8(bytes) else {
            bail!("{name} is a binary file that is not MLIR bytecode: {FROM_JAX}");
        };
        if text.trim().is_empty() {
            bail!("{name} is empty: {FROM_JAX}");
        }
        if let Some(bytes) = decoded(&text) {
            return Self::of_bytecode(name, &bytes);
        }
        let module = match parse(&text) {
            Ok(module) => module,
            Err(error) => match looks_like(&text) {
                Some(other) => bail!("{name} is {other}, not a kernel: {FROM_JAX}"),
                None => bail!("{name}:{error}: {FROM_JAX}"),
            },
        };
        Ok(Self { name, module, text })
    }

    fn of_bytecode(name: String, bytes: &[u8]) -> Result<Self> {
        let module = match bytecode::read(bytes) {
            Ok(module) => module,
            Err(error) => bail!("{name} is MLIR bytecode that cannot be read: {error}"),
        };
        let (module, text) = module.into_text();
        Ok(Self { name, module, text })
    }

    /// Picks one kernel of the module, by name.
    pub fn kernel(&self, name: &str) -> Result<EmbeddedKernel> {
        let kernels = embedded_kernels(&self.module)?;
        let names: Vec<&str> = kernels.iter().map(|kernel| kernel.name.as_str()).collect();
        match kernels.iter().find(|kernel| kernel.name == name) {
            Some(kernel) => Ok(kernel.clone()),
            None if names.is_empty() => bail!("{} is a kernel itself: leave out --kernel", self.name),
            None => bail!("{} has no kernel '{}', only {}", self.name, printable(name), names.join(", ")),
        }
    }
}

/// Decodes bytecode in base64, as it stands in a `backend_config`.
fn decoded(text: &str) -> Option<Vec<u8>> {
    let joined: String = text.split_whitespace().collect();
    let bytes = STANDARD.decode(joined.trim_matches('"')).ok()?;
    is_bytecode(&bytes).then_some(bytes)
}

/// Finds the kernel in a folder of `--xla_mosaic_dump_to`: the module before the first pass. Later files are
/// after the compiler's passes, in a dialect of the compiler's own.
fn dumped_kernel(folder: &Path) -> Result<PathBuf> {
    let name = shown(folder);
    let files = Allowance::default().list(folder)?.files;
    let originals: Vec<&PathBuf> = files
        .iter()
        .filter(|file| {
            let name = input::file_name(file);
            name.contains("-mosaic-dump-") && name.ends_with("-original.txt")
        })
        .collect();
    match originals.as_slice() {
        [only] => Ok((*only).clone()),
        [] => {
            let known = ["stablehlo.mlir", "lowered.mlir", "kernel.ptx"];
            let beside = known.into_iter().find(|known| folder.join(known).is_file());
            match beside {
                Some(file) => bail!("{name} is a folder: name {file} in it"),
                None => bail!(
                    "{name} is a folder without a Mosaic dump (*-mosaic-dump-*-original.txt of \
                     --xla_mosaic_dump_to): {FROM_JAX}"
                ),
            }
        }
        several => {
            let names: Vec<String> = several.iter().map(|file| input::file_name(file)).collect();
            bail!("{name} holds {} kernels: name one of {}", names.len(), names.join(", "))
        }
    }
}

/// What a text is that is no module.
fn looks_like(text: &str) -> Option<String> {
    let start = text.trim_start();
    let first = start.lines().next().unwrap_or_default();
    let begins = |words: &[&str]| words.iter().any(|word| start.starts_with(word));
    let known = match () {
        () if begins(&["HloModule"]) => "HLO text",
        () if begins(&["{ lambda", "let "]) => "a jaxpr",
        () if begins(&["import ", "from ", "def ", "\"\"\"", "#!", "@"]) => "a Python program",
        () if begins(&[".version", "//\n// Generated by NVIDIA"]) => "PTX",
        () if begins(&["{", "["]) => "JSON",
        () if begins(&["<"]) => "HTML or XML",
        () if begins(&["Traceback"]) => "a Python error message",
        () if first.contains("Address") && first.contains("Bundle") => "an LLO listing",
        () if start.contains("module") || start.contains("func.func") => return None,
        () => {
            let first: String = first.chars().take(40).collect();
            return Some(format!("text that begins with '{}'", printable(&first)));
        }
    };
    Some(known.to_owned())
}
