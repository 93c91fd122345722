//! The kernels of a module: their text, their Python lines, and the names of their operands.

use std::{collections::HashMap, path::Path, rc::Rc};

use octile_core::device::tpu::TpuChip;
use octile_mosaic::{
    Attr, Function, Module, SourceStack,
    interpret::{
        EmbeddedKernel, KernelNames, Note, Outcome, Print, embedded_kernels, kernel_entry, name_buffers,
    },
    verify::{Rule, verify},
};

use super::{
    diagnosis::{ArgumentNote, Diagnosis, LocatedNote, LocatedPrint, MosaicLine, Rejection},
    signals::{SemaphoreName, signallers},
};
use crate::python::{Operand, PythonPlace, PythonSources, allocation_names, operand_names};

/// A kernel of a module.
pub(super) struct SimulatedKernel {
    /// Its name, unique in the module.
    pub name: String,
    /// Python files that it was lowered from.
    pub python: Rc<PythonSources>,
    lines: Vec<String>,
    sources: HashMap<u32, SourceStack>,
    operands: Vec<Operand>,
    entry: Option<Function>,
    module: Module,
}

/// The kernels of a module.
pub(super) struct SimulatedKernels {
    kernels: Vec<SimulatedKernel>,
    /// The program around them; the kernel itself if there is none.
    around: SimulatedKernel,
}

impl SimulatedKernels {
    /// Reads the kernels of the module in `file`, whose text is `text`, and gives their operands the names of
    /// the Python program.
    pub(super) fn name(file: &Path, module: &mut Module, text: &str) -> Self {
        let embedded = embedded_kernels(module).unwrap_or_default();
        let bare = || {
            let name = kernel_entry(module).map(|function| function.name.clone()).unwrap_or_default();
            SimulatedKernel::new(name, file, module, text, None)
        };
        let (kernels, around): (Vec<_>, _) = if embedded.is_empty() {
            (vec![bare()], bare())
        } else {
            let kernel = |kernel: EmbeddedKernel| {
                let results = Some(kernel.results.len());
                SimulatedKernel::new(kernel.name, file, &kernel.module, &kernel.text, results)
            };
            (embedded.into_iter().map(kernel).collect(), SimulatedKernel::around(file, module, text))
        };
        for kernel in &kernels {
            name_buffers(module, &kernel.name, &kernel.names());
        }
        Self { kernels, around }
    }

    fn first(&self) -> Option<&SimulatedKernel> {
        self.kernels.first()
    }

    fn named(&self, name: &str) -> Option<&SimulatedKernel> {
        self.kernels.iter().find(|kernel| kernel.name == name)
    }

    /// The line that defines the kernel, if there is one kernel.
    pub(super) fn only_definition(&self) -> Option<PythonPlace> {
        match self.kernels.as_slice() {
            [kernel] => kernel.definition(),
            _ => None,
        }
    }

    /// Describes the findings of a run.
    pub(super) fn diagnoses(&self, outcome: &Outcome) -> Vec<Diagnosis> {
        let of_runs =
            outcome.kernels.iter().flat_map(|run| run.findings.iter().map(|f| (self.named(&run.name), f)));
        // The surrounding module's own findings come last.
        let known: usize = outcome.kernels.iter().map(|run| run.findings.len()).sum();
        let own = outcome.findings.iter().skip(known).map(|finding| (None, finding));
        let all = of_runs.chain(own);
        all.map(|(kernel, finding)| Diagnosis::new(finding, kernel.unwrap_or(&self.around))).collect()
    }

    /// Locates what the compiler would reject, except for memory budgets: the run finds those.
    pub(super) fn rejections(&self, chip: &TpuChip) -> Vec<Rejection> {
        let of_kernel = |kernel: &SimulatedKernel| {
            let violations = verify(&kernel.module, chip).into_iter();
            let violations = violations.filter(|violation| violation.rule != Rule::Budget);
            violations.map(|violation| Rejection::new(violation, kernel)).collect::<Vec<_>>()
        };
        self.kernels.iter().flat_map(of_kernel).collect()
    }

    /// Locates what the kernels printed.
    pub(super) fn prints(&self, prints: &[Print]) -> Vec<LocatedPrint> {
        let locate = |print: &Print| LocatedPrint {
            text: print.text.clone(),
            step: print.site.step.clone(),
            device: print.site.device,
            python: self.first().and_then(|kernel| kernel.python.place(&print.site.source)),
        };
        prints.iter().map(locate).collect()
    }

    /// Locates the notes of a run.
    pub(super) fn notes(&self, outcome: &Outcome) -> Vec<LocatedNote> {
        let kernel = |note: &Note| {
            let run = outcome.kernels.iter().find(|run| run.notes.contains(note));
            run.and_then(|run| self.named(&run.name)).unwrap_or(&self.around)
        };
        let mut notes: Vec<LocatedNote> = Vec::new();
        for note in &outcome.notes {
            let located = LocatedNote::new(note.clone(), kernel(note));
            // The same remark on another operation, say another matmul, is counted.
            match notes.iter_mut().find(|known| known.says_the_same(&located)) {
                Some(known) => known.times += 1,
                None => notes.push(located),
            }
        }
        notes
    }
}

impl SimulatedKernel {
    /// The program around the kernels.
    fn around(file: &Path, module: &Module, text: &str) -> Self {
        let lines = text.lines().map(str::to_owned).collect();
        let sources = module.sources();
        let python = Rc::new(PythonSources::new(file, sources.values().map(|stack| &**stack)));
        let (name, module) = (String::new(), module.clone());
        Self { name, lines, sources, operands: Vec::new(), python, entry: None, module }
    }

    fn new(name: String, file: &Path, module: &Module, text: &str, results: Option<usize>) -> Self {
        let mut stacks = Vec::new();
        let entry = kernel_entry(module);
        if let Some(entry) = entry {
            entry.walk(&mut |op| stacks.extend(op.source.clone()));
        }
        let python = Rc::new(PythonSources::new(file, stacks.iter().map(|stack| &**stack)));
        let operands = |function: &Function| operand_names(&python, function, results);
        let operands = entry.map(operands).unwrap_or_default();
        let lines = text.lines().map(str::to_owned).collect();
        Self {
            name,
            lines,
            sources: module.sources(),
            operands,
            python,
            entry: entry.cloned(),
            module: module.clone(),
        }
    }

    /// Names of its buffers and semaphores.
    fn names(&self) -> KernelNames {
        let arguments = self.operands.iter().map(|operand| operand.name.clone()).collect();
        let allocations = self.entry.as_ref().map(|function| allocation_names(&self.python, function));
        KernelNames { arguments, allocations: allocations.unwrap_or_default() }
    }

    /// A line of its text.
    pub(super) fn mosaic(&self, line: u32) -> MosaicLine {
        let index = (line as usize).checked_sub(1);
        let text = index.and_then(|index| self.lines.get(index)).map(|text| text.trim().to_owned());
        MosaicLine { line, text }
    }

    /// The Python line of a line of its text.
    pub(super) fn python_at(&self, line: u32) -> Option<PythonPlace> {
        self.python.place(self.sources.get(&line)?)
    }

    /// The line that defines the kernel.
    pub(super) fn definition(&self) -> Option<PythonPlace> {
        self.python.definition(self.entry.as_ref()?)
    }

    /// The line of the index map of a window; that of the kernel, if the index map has none.
    pub(super) fn index_map(&self, window: usize) -> Option<PythonPlace> {
        let map = || {
            let Attr::Array(windows) = self.entry.as_ref()?.attributes.get("window_params")? else {
                return None;
            };
            let Attr::Dict(params) = windows.get(window)? else { return None };
            let Attr::Symbol(name) = params.get("transform_indices")? else { return None };
            let mut ops = self.module.function(name)?.body.ops.iter();
            ops.find_map(|op| self.python.place(op.source.as_deref()?))
        };
        map().or_else(|| self.definition())
    }

    /// Lines of the operations that could signal a semaphore.
    pub(super) fn signallers(&self, semaphore: &str) -> Vec<u32> {
        let name = SemaphoreName::parse(semaphore);
        let number = self.operands.iter().position(|operand| operand.name == name.argument);
        let (Some(function), Some(number)) = (&self.entry, number) else { return Vec::new() };
        let argument = function.body.arguments.get(number);
        argument.map(|argument| signallers(function, *argument, &name)).unwrap_or_default()
    }

    /// Describes the arguments that a sentence calls by their Mosaic names.
    pub(super) fn argument_notes(&self, sentence: &str) -> Vec<ArgumentNote> {
        let words: Vec<&str> = sentence.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
        let is_meant = |operand: &&Operand| !operand.is_python_name && words.contains(&&*operand.name);
        let note = |operand: &Operand| ArgumentNote {
            name: operand.name.clone(),
            description: operand.description(),
        };
        self.operands.iter().filter(is_meant).map(note).collect()
    }
}
