//! Python source lines of lowered kernels: which line an operation belongs to, and what it says.
//!
//! A lowering records the calls that led to each operation. JAX before 0.8 records all of them, down to the
//! script that called the kernel. Since then it records those up to the traced function; but an operation
//! that it lowers through a cached function has the calls of the first use before its own. The calls that
//! the author would recognize are found by comparing each with the text of the line that should contain it.

mod file;
mod kernel;
mod scoped;
mod signature;
mod stack;

use std::{
    cell::RefCell,
    collections::HashMap,
    path::{Path, PathBuf},
    rc::Rc,
    sync::Arc,
};

use octile_mosaic::SourceFrame;
use serde::Serialize;

use crate::input;
use file::PythonFile;

pub(crate) use kernel::{Operand, operand_names};
pub(crate) use scoped::allocation_names;

/// Size limit of a Python file.
const FILE_BYTES: u64 = 4 << 20;
/// Python files that one command reads.
const MAX_FILES: usize = 64;

/// A line of a Python program.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PythonLine {
    /// The file as recorded, relative to the current folder where it is below it.
    pub file: String,
    /// The line, from 1.
    pub line: u32,
    /// The function that contains it, if recorded.
    pub function: Option<String>,
    /// The statement, if the file is there.
    pub code: Option<String>,
    /// Where the file was found.
    #[serde(skip)]
    pub path: Option<PathBuf>,
}

/// Where an operation comes from: the line in the kernel, and the helpers that it calls.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PythonPlace {
    /// The line in the kernel.
    #[serde(flatten)]
    pub line: PythonLine,
    /// Lines of the helpers that it calls, outermost first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub helpers: Vec<PythonLine>,
}

/// Python files of a module, read when they are needed.
#[derive(Debug, Default)]
pub struct PythonSources {
    /// The module's folder.
    folder: Option<PathBuf>,
    /// Calls outside the kernel, which every operation shares, innermost first.
    callers: Vec<SourceFrame>,
    files: RefCell<HashMap<Arc<str>, Option<Found>>>,
}

/// A file that was found.
#[derive(Debug, Clone)]
struct Found {
    path: PathBuf,
    file: Rc<PythonFile>,
}

impl PythonSources {
    /// Sources of a module in `file`; their stacks tell the calls inside the kernel from those outside it.
    pub fn new<'s>(file: &Path, stacks: impl IntoIterator<Item = &'s [SourceFrame]>) -> Self {
        let folder = if file.is_dir() { Some(file) } else { file.parent() };
        let folder = folder.filter(|_| !input::is_stream(file)).map(Path::to_owned);
        Self { folder, callers: stack::shared_callers(stacks), files: RefCell::default() }
    }

    /// The line that the author of the kernel would recognize, for calls innermost first.
    pub fn place(&self, frames: &[SourceFrame]) -> Option<PythonPlace> {
        let code =
            |frame: &SourceFrame| self.found(&frame.file)?.file.statement_code(frame.line).map(str::to_owned);
        let (line, helpers) = stack::chosen(frames, &self.callers, code)?;
        let helpers = helpers.into_iter().map(|frame| self.line(frame)).collect();
        Some(PythonPlace { line: self.line(line), helpers })
    }

    /// A line by itself, whatever calls led to it.
    pub fn single_line(&self, file: &str, line: u32) -> PythonLine {
        self.line(&SourceFrame { function: None, file: file.into(), line, column: 0 })
    }

    fn line(&self, frame: &SourceFrame) -> PythonLine {
        let found = self.found(&frame.file);
        let code = found.as_ref().and_then(|found| found.file.code_at(frame.line, frame.column));
        PythonLine {
            file: shortened(Path::new(&*frame.file)),
            line: frame.line,
            function: frame.function.as_deref().map(str::to_owned),
            code: code.map(str::to_owned),
            path: found.map(|found| found.path),
        }
    }

    /// Reads a file, once.
    fn found(&self, name: &Arc<str>) -> Option<Found> {
        if let Some(known) = self.files.borrow().get(name) {
            return known.clone();
        }
        let is_full = self.files.borrow().len() >= MAX_FILES;
        let found = if is_full { None } else { self.read(name) };
        self.files.borrow_mut().insert(name.clone(), found.clone());
        found
    }

    /// Reads the file of this name, or the one of its name in the module's folder.
    fn read(&self, name: &str) -> Option<Found> {
        let name = Path::new(name);
        // Only Python files: the module, which may come from anyone, names them.
        if name.extension().is_none_or(|extension| extension != "py") {
            return None;
        }
        let beside = self.folder.as_ref().and_then(|folder| Some(folder.join(name.file_name()?)));
        let candidates = if name.is_absolute() {
            [Some(name.to_owned()), beside]
        } else {
            [beside, Some(name.to_owned())]
        };
        candidates.into_iter().flatten().find_map(|path| {
            let bytes = input::read(&path, FILE_BYTES).ok()?;
            let file = Rc::new(PythonFile::parse(&String::from_utf8_lossy(&bytes)));
            Some(Found { path, file })
        })
    }
}

/// A path relative to the current folder, where it is below it.
fn shortened(path: &Path) -> String {
    let folder = std::env::current_dir().unwrap_or_default();
    let short = path.strip_prefix(&folder).ok().filter(|short| !short.as_os_str().is_empty());
    short.unwrap_or(path).to_string_lossy().into_owned()
}
