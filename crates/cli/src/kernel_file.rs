//! A TPU kernel in any form that JAX, libtpu or Octile writes it.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use anyhow::{Result, bail};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use octile_mosaic::{
    Module,
    bytecode::{self, is_bytecode},
    interpret::{EmbeddedKernel, embedded_kernels, kernel_entry},
    parse,
};

use crate::{
    input::{self, Allowance},
    print::{printable, shown},
};

/// How to get a module that can be read.
pub const FROM_JAX: &str =
    "write `jax.jit(f).trace(*args).lower(lowering_platforms=(\"tpu\",)).as_text()` to a file";

/// Content of a file with a kernel, in its own form.
#[derive(Debug, Clone)]
pub enum KernelContent {
    /// A module as text.
    Text(String),
    /// A kernel as MLIR bytecode.
    Bytecode(Vec<u8>),
}

impl KernelContent {
    /// Reads a file or a stream.
    pub fn read(path: &Path) -> Result<Self> {
        Self::of(&shown(path), input::read(path, input::DUMP_BYTES)?)
    }

    /// Recognizes bytecode, its base64, and text; `name` is for messages.
    fn of(name: &str, bytes: Vec<u8>) -> Result<Self> {
        if is_bytecode(&bytes) {
            return Ok(Self::Bytecode(bytes));
        }
        let text = String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'));
        let Some(text) = text else {
            bail!(
                "{name} is binary, but not MLIR bytecode: pass a kernel as MLIR text or bytecode; for that, \
                 {FROM_JAX}"
            );
        };
        if text.trim().is_empty() {
            bail!("{name} is empty: {FROM_JAX}");
        }
        Ok(decoded(&text).map_or(Self::Text(text), Self::Bytecode))
    }

    /// Reads the module; `path` is where the content comes from.
    pub fn module(&self, path: &Path) -> Result<KernelFile> {
        let (name, path) = (shown(path), path.to_owned());
        match self {
            Self::Bytecode(bytes) => match bytecode::read(bytes) {
                Ok(module) => {
                    let (module, text) = module.into_text();
                    Ok(KernelFile { path, name, module, text })
                }
                Err(error) => bail!("{name} is MLIR bytecode that cannot be read: {error}"),
            },
            Self::Text(text) => match parse(text) {
                Ok(module) => Ok(KernelFile { path, name, module, text: text.clone() }),
                Err(error) => match looks_like(text) {
                    Some(other) => bail!("{name} is {other}, not a kernel: {FROM_JAX}"),
                    None => bail!("{name}:{error}: {FROM_JAX}"),
                },
            },
        }
    }
}

/// A kernel, or the module around one or several.
#[derive(Debug, Clone)]
pub struct KernelFile {
    /// The file.
    pub path: PathBuf,
    /// Name of the file in messages.
    pub name: String,
    /// The module.
    pub module: Module,
    /// The text that its lines refer to.
    pub text: String,
}

impl KernelFile {
    /// Reads a kernel from a file or a stream, or all of a folder of Mosaic dumps.
    pub fn read_all(path: &Path) -> Result<Vec<Self>> {
        if !path.is_dir() {
            return Ok(vec![Self::read(path)?]);
        }
        dumped_kernels(path)?.iter().map(|file| Self::read(file)).collect()
    }

    /// Reads a kernel from a file or a stream.
    fn read(path: &Path) -> Result<Self> {
        KernelContent::read(path)?.module(path)
    }

    /// Name of the kernel, if the file is one itself.
    fn bare_name(&self) -> Option<&str> {
        kernel_entry(&self.module).map(|function| function.name.as_str())
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

/// The Mosaic text of a kernel in another form: bytecode, its base64, or a lowered module with one kernel.
/// `None` for any other file.
pub fn mosaic_text(path: &Path, bytes: &[u8]) -> Result<Option<String>> {
    let text = std::str::from_utf8(bytes).ok();
    let is_module = |text: &&str| text.contains("stablehlo.custom_call") && text.contains("tpu_custom_call");
    if let Some(text) = text.filter(is_module) {
        let file = KernelContent::Text(text.to_owned()).module(path)?;
        let mut kernels = embedded_kernels(&file.module)?;
        return match kernels.len() {
            1 => Ok(kernels.pop().map(|kernel| kernel.text)),
            several => bail!(
                "{} calls {several} kernels: compile it with `octile inspect`, and analyze that folder",
                file.name
            ),
        };
    }
    let bytecode = is_bytecode(bytes).then(|| bytes.to_vec()).or_else(|| decoded(text?));
    let read = |bytes: Vec<u8>| Ok(KernelContent::Bytecode(bytes).module(path)?.text);
    bytecode.map(read).transpose()
}

/// Picks the kernel called `name` from those of a dump folder; the second `k` is `k#2`.
pub fn pick(files: Vec<KernelFile>, name: &str) -> Result<KernelFile> {
    let names = numbered_names(&files);
    match names.iter().position(|known| known == name) {
        Some(position) => Ok(files.into_iter().nth(position).expect("there is a name for each file")),
        None => bail!("the folder has no kernel '{}', only {}", printable(name), names.join(", ")),
    }
}

/// Names of the kernels of a dump folder, each once.
pub fn numbered_names(files: &[KernelFile]) -> Vec<String> {
    let mut uses: HashMap<&str, usize> = HashMap::new();
    let name = |file: &KernelFile| file.bare_name().unwrap_or_default().to_owned();
    let mut numbered = Vec::new();
    for file in files {
        let uses = uses.entry(file.bare_name().unwrap_or_default()).or_default();
        *uses += 1;
        numbered.push(if *uses == 1 { name(file) } else { format!("{}#{uses}", name(file)) });
    }
    numbered
}

/// Finds the kernels in a folder of `--xla_mosaic_dump_to`: the modules before the first pass. Later files
/// are after the compiler's passes, in a dialect of the compiler's own.
pub fn dumped_kernels(folder: &Path) -> Result<Vec<PathBuf>> {
    let name = shown(folder);
    let files = Allowance::default().list(folder)?.files;
    let is_original = |file: &PathBuf| {
        let name = input::file_name(file);
        name.contains("-mosaic-dump-") && name.ends_with("-original.txt")
    };
    let mut originals: Vec<PathBuf> = files.into_iter().filter(is_original).collect();
    originals.sort();
    if !originals.is_empty() {
        return Ok(originals);
    }
    let known = ["stablehlo.mlir", "lowered.mlir", "kernel.ptx"];
    match known.into_iter().find(|known| folder.join(known).is_file()) {
        Some(file) => bail!("{name} is a folder: name {file} in it"),
        None => bail!(
            "{name} is a folder without a Mosaic dump (*-mosaic-dump-*-original.txt of \
             --xla_mosaic_dump_to): {FROM_JAX}"
        ),
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
