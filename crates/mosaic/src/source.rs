//! Source locations, from bytecode and from text, reduced to a call stack.

use std::sync::Arc;

use crate::{
    ir::{SourceFrame, SourceStack},
    limits::MAX_SOURCE_FRAMES,
};

/// What is known about the origin of an operation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trace {
    /// Lines, innermost first.
    frames: SourceFrames,
    /// A name that stands for the whole location.
    name: Option<Arc<str>>,
    shape: Shape,
}

type SourceFrames = Option<SourceStack>;

/// What a location is made of, as far as the meaning of a name around it depends on that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Shape {
    /// Nothing is known.
    #[default]
    Unknown,
    /// A line of a file.
    File,
    /// A line of a file with a name.
    NamedFile,
    /// Something else.
    Other,
}

impl Trace {
    /// A line of a file.
    pub(crate) fn file(file: &str, line: u64, column: u64) -> Self {
        let number = |value| u32::try_from(value).unwrap_or(u32::MAX);
        let frame =
            SourceFrame { file: file.into(), line: number(line), column: number(column), function: None };
        Self { frames: Some([frame].into()), name: None, shape: Shape::File }
    }

    /// A location with a name. Around a line it is the function; around calls it is the primitive that was
    /// traced there, and around nothing it is all that is known.
    pub(crate) fn named(self, name: &str) -> Self {
        match (self.shape, &self.frames) {
            (Shape::File, Some(frames)) => {
                let named = |frame: &SourceFrame| SourceFrame {
                    function: is_function(name).then(|| name.into()),
                    ..frame.clone()
                };
                Self { frames: Some(frames.iter().map(named).collect()), name: None, shape: Shape::NamedFile }
            }
            (Shape::Unknown, _) => Self { frames: None, name: Some(name.into()), shape: Shape::Other },
            _ => Self { name: None, shape: Shape::Other, ..self },
        }
    }

    /// A location in a function, and the location of the call.
    pub(crate) fn called_from(&self, caller: &Self) -> Self {
        let frames = |trace: &Self| trace.frames.clone().unwrap_or_default();
        let mut all: Vec<SourceFrame> = Vec::new();
        for frame in frames(self).iter().chain(frames(caller).iter()) {
            if all.last() != Some(frame) && all.len() < MAX_SOURCE_FRAMES {
                all.push(frame.clone());
            }
        }
        Self { frames: (!all.is_empty()).then(|| all.into()), name: None, shape: Shape::Other }
    }

    /// Several locations of one operation; the first that has lines counts.
    pub(crate) fn fused(traces: impl IntoIterator<Item = Self>) -> Self {
        let frames = traces.into_iter().find_map(|trace| trace.frames);
        Self { frames, name: None, shape: Shape::Other }
    }

    /// The name of the Python argument, which JAX gives as the location of an argument.
    pub(crate) fn argument_name(self) -> Option<String> {
        self.name.filter(|name| is_identifier(name)).map(|name| name.to_string())
    }

    /// The phase name and the source lines of an operation at this location.
    pub(crate) fn of_op(self) -> (Option<Arc<str>>, Option<SourceStack>) {
        match (self.shape, self.frames) {
            // A lone name is that of the primitive: lowerings that record functions nest two names.
            (Shape::NamedFile, Some(frames)) => {
                let plain = |frame: &SourceFrame| SourceFrame { function: None, ..frame.clone() };
                (None, Some(frames.iter().map(plain).collect()))
            }
            (_, frames) => (self.name, frames),
        }
    }
}

/// Returns whether a name can be that of a Python argument.
fn is_identifier(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

/// Scopes of primitives, such as `jit(f)/add` and `add:`, are not functions.
fn is_function(name: &str) -> bool {
    !name.is_empty() && !name.contains('/') && !name.ends_with(':')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled(trace: Trace) -> Vec<String> {
        let (_, frames) = trace.of_op();
        let spell = |frame: &SourceFrame| {
            format!("{}:{}:{}", frame.file, frame.line, frame.function.as_deref().unwrap_or("?"))
        };
        frames.unwrap_or_default().iter().map(spell).collect()
    }

    #[test]
    fn names_around_lines_are_functions() {
        let inner = Trace::file("k.py", 9, 4).named("kernel.<locals>.cx");
        let outer = Trace::file("k.py", 12, 4).named("kernel");
        let trace = inner.called_from(&outer).named("mul").named("mul:");
        assert_eq!(spelled(trace), ["k.py:9:kernel.<locals>.cx", "k.py:12:kernel"]);
    }

    #[test]
    fn a_lone_name_is_the_primitive() {
        assert_eq!(spelled(Trace::file("k.py", 9, 4).named("mul")), ["k.py:9:?"]);
        assert_eq!(spelled(Trace::file("k.py", 9, 4).named("jit(f)/mul").named("mul:")), ["k.py:9:?"]);
    }

    #[test]
    fn the_same_line_is_listed_once() {
        let line = Trace::file("k.py", 9, 4).named("kernel");
        assert_eq!(spelled(line.called_from(&line).named("get")), ["k.py:9:kernel"]);
    }

    #[test]
    fn calls_of_calls_are_bounded() {
        let mut trace = Trace::file("k.py", 9, 4);
        for line in 0..200 {
            trace = trace.called_from(&Trace::file("k.py", line, 1)).called_from(&trace);
        }
        assert_eq!(spelled(trace).len(), MAX_SOURCE_FRAMES);
    }

    #[test]
    fn a_name_without_lines_is_the_phase() {
        assert_eq!(Trace::default().named("fetch").of_op().0.as_deref(), Some("fetch"));
        assert_eq!(Trace::default().named("eq").named("eq:").of_op().0, None);
    }
}
