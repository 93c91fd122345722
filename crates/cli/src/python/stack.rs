//! Chooses among the calls that led to an operation.

use octile_mosaic::SourceFrame;

/// Parts of paths that belong to JAX, not to a kernel.
const PACKAGES: [&str; 3] = ["/jax/_src/", "/jax/experimental/", "/site-packages/jax/"];
/// Folder of kernels inside such a package.
const KERNELS: &str = "/jax/experimental/pallas/ops/";

/// The calls, innermost first, that all stacks share at their outer end; every stack keeps one more.
pub(super) fn shared_callers<'s>(stacks: impl IntoIterator<Item = &'s [SourceFrame]>) -> Vec<SourceFrame> {
    let mut stacks = stacks.into_iter().map(of_user).filter(|stack| !stack.is_empty());
    let Some(first) = stacks.next() else { return Vec::new() };
    let mut shared = first.get(1..).unwrap_or_default().to_vec();
    for stack in stacks {
        let inner = stack.get(1..).unwrap_or_default();
        let same = shared.iter().rev().zip(inner.iter().rev()).take_while(|(a, b)| a == b).count();
        shared.drain(..shared.len() - same);
    }
    shared.into_iter().cloned().collect()
}

/// The calls outside the packages of JAX; all of them if there are no others.
fn of_user(frames: &[SourceFrame]) -> Vec<&SourceFrame> {
    let is_package = |frame: &&SourceFrame| {
        let file = frame.file.replace('\\', "/");
        !file.contains(KERNELS) && PACKAGES.iter().any(|package| file.contains(package))
    };
    let own: Vec<&SourceFrame> = frames.iter().filter(|frame| !is_package(frame)).collect();
    if own.is_empty() { frames.iter().collect() } else { own }
}

/// The calls inside the kernel, innermost first.
pub(super) fn inside<'f>(frames: &'f [SourceFrame], callers: &[SourceFrame]) -> Vec<&'f SourceFrame> {
    let mut stack = of_user(frames);
    let kept = stack.len().saturating_sub(callers.len());
    if kept > 0 && stack[kept..].iter().zip(callers).all(|(frame, caller)| *frame == caller) {
        stack.truncate(kept);
    }
    stack
}

/// What the text of a caller's line says about the call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Relation {
    /// It calls the function.
    Calls,
    /// It hands the function to JAX, as `fori_loop` and `pl.when` take it.
    Hands,
    /// It does neither: the inner call belongs to another use.
    None,
}

/// The line in the kernel, and the helpers that it calls, outermost first.
///
/// `code` returns the statement of a line, where its file is there.
pub(super) fn chosen<'f>(
    frames: &'f [SourceFrame],
    callers: &[SourceFrame],
    code: impl Fn(&SourceFrame) -> Option<String>,
) -> Option<(&'f SourceFrame, Vec<&'f SourceFrame>)> {
    let stack = inside(frames, callers);
    let has_callers = !callers.is_empty() && stack.len() < of_user(frames).len();
    let mut outward = stack.iter().rev();
    let (mut line, mut helpers) = (*outward.next()?, Vec::new());
    for &inner in outward {
        let caller = helpers.last().copied().unwrap_or(line);
        match code(caller) {
            Some(code) => match relation(&code, inner) {
                Relation::Calls => helpers.push(inner),
                Relation::Hands => (line, helpers) = (inner, Vec::new()),
                Relation::None => break,
            },
            // With all calls recorded, the innermost line of the kernel's functions is the one meant.
            None if has_callers && is_nested(inner, line) => line = inner,
            None => break,
        }
    }
    Some((line, helpers))
}

/// Whether a function is defined inside that of the other line, or is the same.
fn is_nested(inner: &SourceFrame, outer: &SourceFrame) -> bool {
    let (Some(inner), Some(outer)) = (&inner.function, &outer.function) else { return false };
    let rest = inner.strip_prefix(&**outer);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(".<locals>"))
}

fn relation(caller: &str, inner: &SourceFrame) -> Relation {
    let Some(function) = &inner.function else { return Relation::None };
    let name = function.rsplit('.').next().unwrap_or(function);
    if name == "<lambda>" {
        return if caller.contains("lambda") { Relation::Hands } else { Relation::None };
    }
    let is_word = |character: char| character.is_alphanumeric() || character == '_';
    let mut relation = match caller.trim_start().starts_with('@') {
        true => Relation::Hands,
        false => Relation::None,
    };
    for (at, _) in caller.match_indices(name) {
        let (before, after) = (&caller[..at], &caller[at + name.len()..]);
        if before.ends_with(is_word) || after.starts_with(is_word) {
            continue;
        }
        if after.trim_start().starts_with('(') && !before.trim_end().ends_with("def") {
            return Relation::Calls;
        }
        relation = Relation::Hands;
    }
    relation
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(file: &str, line: u32, function: &str) -> SourceFrame {
        SourceFrame { file: file.into(), line, column: 5, function: Some(function.into()) }
    }

    /// Lines of a kernel that is called from a script.
    fn code(frame: &SourceFrame) -> Option<String> {
        let code = match (&*frame.file, frame.line) {
            ("k.py", 8) => "c = helpers.start(x_hbm.at[i], xb, sem)",
            ("k.py", 9) => "@pl.when(i == 0)",
            ("k.py", 11) => "helpers.fill(o_ref)",
            ("k.py", 14) => "y = cw(k).wait()",
            ("k.py", 18) => "jax.lax.fori_loop(0, nk, body, 0)",
            ("k.py", 16) => "o_ref[...] += y",
            ("k.py", 17) => "o_ref[...] = tmp[...]",
            ("k.py", 25) => "return pl.pallas_call(kernel)(t, x)",
            ("helpers.py", _) => "ref[...] = 0",
            _ => return None,
        };
        Some(code.to_owned())
    }

    fn lines(frames: &[SourceFrame], callers: &[SourceFrame], is_there: bool) -> Vec<u32> {
        let code = |frame: &SourceFrame| code(frame).filter(|_| is_there);
        let (line, helpers) = chosen(frames, callers, code).expect("a line");
        [line].into_iter().chain(helpers).map(|frame| frame.line).collect()
    }

    #[test]
    fn the_calls_of_another_use_are_dropped() {
        // The store to o_ref is lowered through a function that was first used by helpers.fill.
        let fill = [frame("helpers.py", 5, "fill"), frame("k.py", 11, "kernel.<locals>._")];
        let cached = [fill.to_vec(), vec![frame("k.py", 16, "kernel.<locals>.body")]].concat();
        assert_eq!(lines(&cached, &[], true), [16]);
        assert_eq!(lines(&cached, &[], false), [16]);
        let same = [frame("k.py", 16, "kernel.<locals>.body"), frame("k.py", 17, "kernel")];
        assert_eq!(lines(&same, &[], true), [17]);
        let twice = [fill.clone(), fill.clone()].concat();
        assert_eq!(lines(&twice, &[], true), [11, 5]);
    }

    #[test]
    fn a_helper_is_shown_after_its_call() {
        let frames = [frame("helpers.py", 5, "start"), frame("k.py", 8, "kernel")];
        assert_eq!(lines(&frames, &[], true), [8, 5]);
        assert_eq!(lines(&frames, &[], false), [8]);
    }

    #[test]
    fn calls_outside_the_kernel_and_loops_are_not_shown() {
        let outside = [frame("k.py", 25, "mm"), frame("k.py", 34, "<module>")];
        let kernel = [&[frame("k.py", 8, "kernel")][..], &outside].concat();
        let when =
            [&[frame("k.py", 11, "kernel.<locals>._"), frame("k.py", 9, "kernel")][..], &outside].concat();
        let body = [
            &[frame("k.py", 3, "kernel.<locals>.cw"), frame("k.py", 14, "kernel.<locals>.body")][..],
            &[frame("k.py", 18, "kernel")],
            &outside,
        ];
        let body = body.concat();
        let callers = shared_callers([&kernel[..], &when, &body]);
        assert_eq!(callers, outside);
        assert_eq!(lines(&kernel, &callers, true), [8]);
        assert_eq!(lines(&when, &callers, true), [11]);
        assert_eq!(lines(&when, &callers, false), [11]);
        assert_eq!(lines(&body, &callers, true), [14, 3]);
        assert_eq!(lines(&body, &callers, false), [14]);
    }

    #[test]
    fn frames_of_jax_are_skipped_unless_they_are_its_kernels() {
        let jax = "/v/lib/python3.12/site-packages/jax";
        let own = frame("k.py", 8, "kernel");
        let frames = [frame(&format!("{jax}/_src/lax/lax.py"), 1, "add"), own.clone()];
        assert_eq!(lines(&frames, &[], true), [8]);
        let paged = frame(&format!("{jax}/experimental/pallas/ops/tpu/paged.py"), 7, "paged");
        assert_eq!(lines(&[frames[0].clone(), paged], &[], true), [7]);
        assert_eq!(lines(&frames[..1], &[], true), [1]);
    }
}
