//! Declarations: target, parameters, launch bounds, registers.

use octile_core::device::hopper::HopperGpu;

use super::{LoadError, Names, operands::Problem};
use crate::{
    ir::{Directive, Function, Module, RegisterDecl},
    limits::{MAX_PARAMETERS, MAX_REGISTERS},
    simulate::ParameterKind,
};

/// Most threads of a CTA.
const MAX_THREADS: usize = HopperGpu::THREADS_PER_BLOCK;

/// The only function of a module for `sm_90a`, which must be a kernel.
pub(super) fn kernel<'m, 'a>(module: &'m Module<'a>) -> Result<&'m Function<'a>, LoadError> {
    let (target, supported) = (&*module.target, HopperGpu::TARGET);
    if !target.is_empty() && target != supported {
        return Err(LoadError::unsupported(
            1,
            format!("the target is {target}; only {supported} is simulated"),
        ));
    }
    let kernel = match &module.functions[..] {
        [] => return Err(LoadError::unsupported(1, "there is no entry point")),
        [kernel] if kernel.is_entry => kernel,
        [function] => {
            let message = format!("`{}` is a device function, not an entry point", function.name);
            return Err(LoadError::unsupported(function.position.line, message));
        }
        [_, second, ..] => {
            let message = format!("`{}` is a second function; only one kernel is simulated", second.name);
            return Err(LoadError::unsupported(second.position.line, message));
        }
    };
    let foreign = module.variables.iter().filter(|variable| !variable.text.starts_with(".extern .shared"));
    match foreign.chain(&kernel.variables).next() {
        Some(variable) => {
            let message = format!("the simulator does not support the declaration `{}`", variable.text);
            Err(LoadError::unsupported(variable.position.line, message))
        }
        None => Ok(kernel),
    }
}

/// Names and kinds of the parameters.
pub(super) fn parameters(kernel: &Function<'_>) -> Result<Vec<(String, ParameterKind)>, LoadError> {
    if let Some(beyond) = kernel.parameters.get(MAX_PARAMETERS) {
        let message = format!("the kernel has more than {MAX_PARAMETERS} parameters");
        return Err(LoadError::unsupported(beyond.position.line, message));
    }
    let parameters = kernel.parameters.iter().map(|declared| {
        let kind: Vec<&str> = declared.kind.split_whitespace().collect();
        let kind = match (&kind[..], declared.elements.as_deref()) {
            ([".param", ".u32"], None) => ParameterKind::Number,
            ([".param", ".u64"], None) => ParameterKind::Pointer,
            ([".param", ".align", "64", ".b8"], Some("128")) => ParameterKind::TensorMap,
            _ => {
                let message = format!(
                    "the simulator does not support the parameter `{declared}`: use `.u32`, `.u64` or a \
                     tensor map, separated by commas"
                );
                return Err(LoadError::unsupported(declared.position.line, message));
            }
        };
        Ok((declared.name.clone().into_owned(), kind))
    });
    parameters.collect()
}

/// What a kernel declares about its launch.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LaunchBounds {
    /// Most threads of a CTA.
    pub(super) threads: Option<usize>,
    /// CTAs that share an SM.
    pub(super) ctas_per_sm: Option<usize>,
}

impl LaunchBounds {
    pub(super) fn of(kernel: &Function<'_>) -> Result<Self, LoadError> {
        let mut bounds = Self::default();
        for directive in &kernel.directives {
            let result = match &*directive.name {
                ".maxntid" => threads(directive).map(|threads| bounds.threads = Some(threads)),
                ".minnctapersm" => ctas(directive).map(|ctas| bounds.ctas_per_sm = Some(ctas)),
                ".explicitcluster" | ".reqnctapercluster" => Ok(()),
                _ => Err(format!("the simulator does not support the directive `{directive}`")),
            };
            result.map_err(|message| LoadError::unsupported(directive.position.line, message))?;
        }
        Ok(bounds)
    }
}

/// `.maxntid 384, 1, 1`
fn threads(directive: &Directive<'_>) -> Result<usize, Problem> {
    let counts: Option<Vec<usize>> = directive.arguments.iter().map(|count| count.parse().ok()).collect();
    match counts.as_deref() {
        Some(
            [threads @ 1..=MAX_THREADS] | [threads @ 1..=MAX_THREADS, 1] | [threads @ 1..=MAX_THREADS, 1, 1],
        ) => Ok(*threads),
        _ => Err(format!("`{directive}`: a CTA has 1 to {MAX_THREADS} threads in one dimension")),
    }
}

/// `.minnctapersm 2`
fn ctas(directive: &Directive<'_>) -> Result<usize, Problem> {
    let ctas = match &directive.arguments[..] {
        [ctas] => ctas.parse().ok().filter(|&ctas| ctas > 0),
        _ => None,
    };
    ctas.ok_or_else(|| format!("`{directive}`: an SM has at least one CTA"))
}

/// `.reg .b32 %r<17>`
pub(super) fn registers(declared: &RegisterDecl<'_>, names: &mut Names<'_>) -> Result<(), Problem> {
    let registers = match (&*declared.kind, &*declared.name) {
        (".b16", "%h") => &mut names.halves,
        (".b32", "%r") => &mut names.integers,
        (".b64", "%rd") => &mut names.wides,
        (".f32", "%f") => &mut names.floats,
        (".pred", "%p") => &mut names.predicates,
        _ => return Err(unsupported(declared)),
    };
    let count = declared.count.as_deref().filter(|count| count.bytes().all(|byte| byte.is_ascii_digit()));
    let count = count.filter(|count| !count.is_empty()).ok_or_else(|| unsupported(declared))?;
    *registers = count.parse().ok().filter(|&count| count <= MAX_REGISTERS).ok_or_else(|| {
        format!("`{declared}`: the simulator takes at most {MAX_REGISTERS} registers of a kind")
    })?;
    Ok(())
}

fn unsupported(declared: &RegisterDecl<'_>) -> Problem {
    format!(
        "the simulator does not support the declaration `{declared}`: use `.b16 %h<N>`, `.b32 %r<N>`, \
         `.b64 %rd<N>`, `.f32 %f<N>` or `.pred %p<N>`"
    )
}
