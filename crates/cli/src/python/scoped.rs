//! Names of what `pl.run_scoped` allocates.

use octile_mosaic::{Function, Op, SourceFrame, interpret::allocations};

use super::{PythonSources, file::PythonFile, signature::split};

/// Names of the allocations of a kernel, in order; empty where they are not certain.
pub(crate) fn allocation_names(sources: &PythonSources, function: &Function) -> Vec<String> {
    let mut names = Vec::new();
    // One call allocates all its buffers at its own line.
    for call in allocations(function).chunk_by(|a, b| a.source == b.source) {
        match sources.scoped_names(call) {
            Some(found) => names.extend(found),
            None => names.extend(call.iter().map(|_| String::new())),
        }
    }
    names
}

impl PythonSources {
    fn scoped_names(&self, call: &[&Op]) -> Option<Vec<String>> {
        let frames = call.first()?.source.as_deref()?;
        let line: &SourceFrame = self.innermost(frames)?;
        let file = self.found(&line.file)?.file;
        let code = file.statement_code(line.line)?;
        scoped_names(&file, line.line, code, call.len())
    }
}

/// Names of the buffers that `run_scoped` in `code` passes to its function, in the order of allocation: those
/// by position, then those by keyword, sorted.
fn scoped_names(file: &PythonFile, line: u32, code: &str, count: usize) -> Option<Vec<String>> {
    let (before, after) = code.split_once("run_scoped")?;
    let is_partial = before.contains("partial(") && before.trim_start().starts_with('@');
    let after = after.trim_start().strip_prefix(if is_partial { ',' } else { '(' })?;
    let mut arguments = split(closed(after)?);
    // A decorator passes the function that follows it.
    let called = if is_partial { None } else { Some(arguments.next()?) };
    let (mut by_position, mut keywords) = (0, Vec::new());
    for argument in arguments {
        match argument.split_once('=') {
            Some((name, _)) if is_name(name.trim()) => keywords.push(name.trim().to_owned()),
            _ => by_position += 1,
        }
    }
    keywords.retain(|name| name != "collective_axes");
    if by_position + keywords.len() != count {
        return None;
    }
    keywords.sort_unstable();
    if by_position == 0 {
        return Some(keywords);
    }
    let function = file.function_before(called?, line)?;
    let mut names: Vec<String> = match function.signature.positional.get(..by_position) {
        Some(parameters) => parameters.iter().map(|parameter| parameter.name.clone()).collect(),
        None => return None,
    };
    names.extend(keywords);
    Some(names)
}

/// What stands before the bracket that closes.
fn closed(text: &str) -> Option<&str> {
    let mut depth = 1;
    let end = text.char_indices().find(|(_, character)| {
        depth += match character {
            '(' | '[' | '{' => 1,
            ')' | ']' | '}' => -1,
            _ => 0,
        };
        depth == 0
    });
    Some(&text[..end?.0])
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|character| character.is_alphanumeric() || character == '_')
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
def kernel(x):
    def body(acc, sem):
        pass
    pl.run_scoped(body, pltpu.VMEM((8, 128), f32),
                  pltpu.SemaphoreType.DMA)
    pl.run_scoped(body, sem=pltpu.SemaphoreType.DMA, acc=pltpu.VMEM((8, 128), f32))
    pl.run_scoped(lambda a: a, pltpu.VMEM((8,), f32))
    @functools.partial(pl.run_scoped, tmp=pltpu.VMEM((8, 128), f32), sem=pltpu.SemaphoreType.DMA)
    def _(tmp, sem):
        pass
";

    #[test]
    fn buffers_have_the_names_of_the_parameters_that_take_them() {
        let file = PythonFile::parse(TEXT);
        let names = |line, count| {
            let code = file.statement_code(line).expect("a statement");
            scoped_names(&file, line, code, count).unwrap_or_default()
        };
        assert_eq!(names(4, 2), ["acc", "sem"]);
        assert_eq!(names(6, 2), ["acc", "sem"]);
        assert_eq!(names(8, 2), ["sem", "tmp"]);
        assert_eq!(names(4, 3), [""; 0]);
        assert_eq!(names(7, 1), [""; 0]);
    }
}
