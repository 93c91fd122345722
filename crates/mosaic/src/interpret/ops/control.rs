//! Branches, loops, calls and scopes.

use super::{Definition, OpKind, effect, pure};
use crate::{
    attribute::Attr,
    interpret::{
        admit::is_terminator,
        ask::not_modelled,
        finding::Trouble,
        machine::{Machine, Stop},
        program::{Block, Compiler, Made, Step},
        value::Value,
    },
    ir::Op,
    types::Type,
};

pub(super) const OPS: &[Definition] = &[
    effect("scf.if", &[], if_).any_results().regions(2).kind(OpKind::If),
    effect("scf.for", &[], for_).any_results().regions(1).kind(OpKind::For),
    effect("scf.while", &[], while_).any_results().regions(2).kind(OpKind::While),
    effect("scf.index_switch", &["cases"], index_switch).any_results().any_regions().kind(OpKind::Switch),
    effect("scf.yield", &[], yield_).kind(OpKind::Yield),
    effect("scf.condition", &[], yield_).kind(OpKind::Yield),
    effect("tpu.yield", &[], yield_).kind(OpKind::Yield),
    effect("func.return", &[], yield_).kind(OpKind::Yield),
    effect("stablehlo.return", &[], yield_).kind(OpKind::Yield),
    effect("sdy.return", &[], yield_).kind(OpKind::Yield),
    effect("func.call", &["callee"], call).any_results().kind(OpKind::Call),
    effect("tpu.region", &[], region).any_results().regions(1).kind(OpKind::Scope),
    effect("tpu.trace", &["message", "level"], region).any_results().regions(1).kind(OpKind::Scope),
    effect("cf.assert", &["msg"], assert),
    effect("tpu.trace_start", &["message", "level"], nothing),
    effect("tpu.trace_stop", &[], nothing),
    effect("tpu.delay", &[], delay),
    pure("tpu.iteration_bound", &["dim"], iteration_bound),
];

fn nothing(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 0, 0)?;
    Ok(Box::new(|_, _| Ok(())))
}

/// Advances the clock only.
fn delay(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 1, 0)?;
    c.scalar_integer(c.operand(op, 0)?)?;
    Ok(Box::new(|_, _| Ok(())))
}

/// Extent of a grid dimension.
fn iteration_bound(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 0, 1)?;
    c.scalar_integer(c.result(op, 0)?)?;
    let dimension = c.integer_attribute(op, "dim")?;
    Ok(Box::new(move |m, step| {
        m.clock.scalar();
        let Some(&extent) = usize::try_from(dimension).ok().and_then(|dimension| m.grid.get(dimension))
        else {
            return Err(Stop::Fault(step.place, format!("the grid has no dimension {dimension}")));
        };
        m.set(step, Value::Integer(extent as i64));
        Ok(())
    }))
}

fn yield_(_: &mut Compiler<'_>, _: &Op) -> Made {
    Ok(Box::new(|m, step| {
        m.yielded = (0..step.operands.len()).map(|i| m.take(step, i)).collect();
        Ok(())
    }))
}

/// Moves the values yielded by the last block into the results of `step`.
pub(super) fn hand_out(m: &mut Machine<'_>, step: &Step) {
    let values = std::mem::take(&mut m.yielded);
    for (&slot, value) in step.results.iter().zip(values) {
        m.frame[slot as usize] = value;
    }
}

/// Types yielded by the block's terminator, without the first `skip`.
fn yields(c: &Compiler<'_>, op: &Op, region: usize, skip: usize, wanted: &[Type]) -> Made<()> {
    let Some(last) = op.regions[region].ops.last().filter(|op| is_terminator(op)) else {
        return Err("a block does not end with a yield".into());
    };
    let types: Vec<&Type> = last.operands.iter().skip(skip).map(|&value| c.ty(value)).collect();
    match types.iter().copied().eq(wanted) {
        true => Ok(()),
        false => Err("a block yields unexpected types".into()),
    }
}

fn result_types(c: &Compiler<'_>, op: &Op) -> Vec<Type> {
    op.results.iter().map(|&value| c.ty(value).clone()).collect()
}

fn argument_types(c: &Compiler<'_>, op: &Op, region: usize) -> Vec<Type> {
    op.regions[region].arguments.iter().map(|&value| c.ty(value).clone()).collect()
}

/// Checks for blocks without arguments.
fn plain_regions(op: &Op) -> Made<()> {
    match op.regions.iter().all(|region| region.arguments.is_empty()) {
        true => Ok(()),
        false => Err("its blocks must have no arguments".into()),
    }
}

fn if_(c: &mut Compiler<'_>, op: &Op) -> Made {
    plain_regions(op)?;
    if op.operands.len() != 1 || *c.operand(op, 0)? != Type::I1 {
        return Err("the condition must be a scalar i1".into());
    }
    let wanted = result_types(c, op);
    if !wanted.is_empty() {
        yields(c, op, 0, 0, &wanted)?;
        yields(c, op, 1, 0, &wanted)?;
    }
    let branches: [Block; 2] = [c.block(&op.regions[0])?, c.block(&op.regions[1])?];
    Ok(Box::new(move |m, step| {
        m.clock.scalar();
        let branch = usize::from(m.integer(step, 0) == 0);
        m.run(&branches[branch])?;
        hand_out(m, step);
        Ok(())
    }))
}

/// Runs the region of the case that the operand equals; the first region is the default.
fn index_switch(c: &mut Compiler<'_>, op: &Op) -> Made {
    plain_regions(op)?;
    if op.operands.len() != 1 {
        return Err("it takes one index".into());
    }
    c.scalar_integer(c.operand(op, 0)?)?;
    let cases = c.integers_attribute(op, "cases")?;
    if op.regions.len() != cases.len() + 1 {
        return Err(format!("{} cases need {} regions", cases.len(), cases.len() + 1).into());
    }
    let wanted = result_types(c, op);
    if !wanted.is_empty() {
        (0..op.regions.len()).try_for_each(|region| yields(c, op, region, 0, &wanted))?;
    }
    let blocks = op.regions.iter().map(|region| c.block(region)).collect::<Result<Vec<Block>, _>>()?;
    Ok(Box::new(move |m, step| {
        m.clock.scalar();
        let value = m.integer(step, 0);
        let case = cases.iter().position(|&case| case == value).map_or(0, |case| case + 1);
        m.run(&blocks[case])?;
        hand_out(m, step);
        Ok(())
    }))
}

fn for_(c: &mut Compiler<'_>, op: &Op) -> Made {
    let carried = result_types(c, op);
    let initial: Vec<Type> = op.operands.iter().skip(3).map(|&value| c.ty(value).clone()).collect();
    let arguments = argument_types(c, op, 0);
    if op.operands.len() < 3 || initial != carried || arguments.get(1..) != Some(&carried[..]) {
        return Err("scf.for needs three bounds, and loop-carried values of matching types".into());
    }
    let counter = &arguments[0];
    if (0..3).any(|i| c.ty(op.operands[i]) != counter) {
        return Err("the bounds and the induction variable of a loop must have one type".into());
    }
    c.scalar_integer(counter)?;
    yields(c, op, 0, 0, &carried)?;
    let body = c.block(&op.regions[0])?;
    Ok(Box::new(move |m, step| {
        let [from, to, by] = [0, 1, 2].map(|i| m.integer(step, i));
        if by <= 0 {
            return Err(Stop::Fault(step.place, format!("loop step must be positive, got {by}")));
        }
        m.yielded = (3..step.operands.len()).map(|i| m.take(step, i)).collect();
        let mut counter = from;
        while counter < to {
            m.clock.scalar();
            m.count_operations(1);
            m.frame[body.arguments[0] as usize] = Value::Integer(counter);
            let values = std::mem::take(&mut m.yielded);
            for (&slot, value) in body.arguments[1..].iter().zip(values) {
                m.frame[slot as usize] = value;
            }
            m.run(&body)?;
            let Some(next) = counter.checked_add(by) else { break };
            counter = next;
        }
        hand_out(m, step);
        Ok(())
    }))
}

fn while_(c: &mut Compiler<'_>, op: &Op) -> Made {
    let initial: Vec<Type> = op.operands.iter().map(|&value| c.ty(value).clone()).collect();
    let results = result_types(c, op);
    let condition = op.regions[0].ops.last();
    let is_condition = condition.is_some_and(|op| {
        op.name == "scf.condition" && op.operands.first().is_some_and(|&value| *c.ty(value) == Type::I1)
    });
    if !is_condition || argument_types(c, op, 0) != initial || argument_types(c, op, 1) != results {
        return Err("loop-carried values must have matching types".into());
    }
    yields(c, op, 0, 1, &results)?;
    yields(c, op, 1, 0, &initial)?;
    let (before, after) = (c.block(&op.regions[0])?, c.block(&op.regions[1])?);
    Ok(Box::new(move |m, step| {
        m.yielded = (0..step.operands.len()).map(|i| m.take(step, i)).collect();
        let mut watchdog = Watchdog::default();
        loop {
            m.clock.scalar();
            m.count_operations(1);
            watchdog.check(m, step)?;
            enter(m, &before);
            m.run(&before)?;
            let goes_on = matches!(m.yielded.first(), Some(Value::Integer(condition)) if *condition != 0);
            m.yielded.remove(0);
            if !goes_on {
                hand_out(m, step);
                return Ok(());
            }
            enter(m, &after);
            m.run(&after)?;
        }
    }))
}

/// Finds loops that do not end: an iteration that changes neither the loop's values nor memory nor a
/// semaphore is repeated for ever, and one that only changes scalars is not repeated a million times.
#[derive(Default)]
struct Watchdog {
    /// The loop-carried scalars and the number of changes when the last iteration began.
    last: Option<(Vec<i64>, u64)>,
    /// Iterations since the last change.
    idle: u64,
}

/// Iterations that only count: a chip would spend milliseconds on them.
const MAX_IDLE_ITERATIONS: u64 = 1 << 20;

impl Watchdog {
    /// Checks before an iteration. A loop that polls a semaphore lets time pass: DMAs complete.
    fn check(&mut self, m: &mut Machine<'_>, step: &Step) -> Result<(), Stop> {
        let Some(scalars) = m.yielded.iter().map(scalar).collect::<Option<Vec<i64>>>() else { return Ok(()) };
        let now = (scalars, m.changes);
        let is_idle = self.last.as_ref().is_some_and(|last| last.1 == m.changes);
        self.idle = if is_idle { self.idle + 1 } else { 0 };
        let repeats = self.last.as_ref() == Some(&now) || self.idle >= MAX_IDLE_ITERATIONS;
        if repeats && !m.pass_time() {
            let site = m.core_site(step);
            m.findings.add(Trouble::EndlessLoop { site, iterations: self.idle });
            return Err(Stop::Halted);
        }
        self.last = Some(now);
        Ok(())
    }
}

/// Bits of a scalar; `None` for vectors and memrefs.
fn scalar(value: &Value) -> Option<i64> {
    match value {
        Value::Integer(value) => Some(*value),
        Value::Float(value) => Some(value.to_bits().into()),
        _ => None,
    }
}

/// Moves the values yielded by the last block into the arguments of `block`.
pub(super) fn enter(m: &mut Machine<'_>, block: &Block) {
    let values = std::mem::take(&mut m.yielded);
    for (&slot, value) in block.arguments.iter().zip(values) {
        m.frame[slot as usize] = value;
    }
}

fn call(c: &mut Compiler<'_>, op: &Op) -> Made {
    let Attr::Symbol(callee) = c.attribute(op, "callee")?.clone() else {
        return Err("attribute 'callee' is not a symbol".into());
    };
    Ok(Box::new(move |m, step| {
        // Existence and signature were checked for the whole module.
        let Some(code) = m.program.functions.get(&callee).cloned() else {
            return Err(Stop::Fault(step.place, format!("the module has no function @{callee}")));
        };
        let values: Vec<Value> = (0..step.operands.len()).map(|i| m.take(step, i)).collect();
        m.yielded = m.call(&code, values.into_iter())?;
        hand_out(m, step);
        Ok(())
    }))
}

/// A scope: buffers allocated inside are freed at its end.
fn region(c: &mut Compiler<'_>, op: &Op) -> Made {
    plain_regions(op)?;
    let wanted = result_types(c, op);
    if wanted.iter().any(|ty| matches!(ty, Type::MemRef(_))) {
        return Err("a memref allocated in a scope cannot outlive it".into());
    }
    if !wanted.is_empty() {
        yields(c, op, 0, 0, &wanted)?;
    }
    let body = c.block(&op.regions[0])?;
    Ok(Box::new(move |m, step| {
        let first = m.buffers.len();
        m.run(&body)?;
        hand_out(m, step);
        m.release(first);
        Ok(())
    }))
}

fn assert(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 1, 0)?;
    c.scalar_integer(c.operand(op, 0)?)?;
    let message = match op.attributes.get("msg") {
        Some(Attr::String(message)) => message.clone(),
        Some(other) => return Err(not_modelled("msg", other)),
        None => String::new(),
    };
    Ok(Box::new(move |m, step| {
        if m.integer(step, 0) != 0 {
            return Ok(());
        }
        let trouble = Trouble::AssertionFailed { message: message.clone(), site: m.core_site(step) };
        m.findings.add(trouble);
        Err(Stop::Halted)
    }))
}
