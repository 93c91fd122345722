//! Branches, loops, calls and scopes.

use super::Maker;
use crate::{
    attribute::Attr,
    interpret::{
        finding::Trouble,
        machine::{Machine, Stop},
        program::{Block, Compiler, Made, Step},
        value::Value,
    },
    ir::Op,
    types::Type,
};

pub(super) const OPS: &[(&str, Maker)] = &[
    ("scf.if", if_),
    ("scf.for", for_),
    ("scf.while", while_),
    ("scf.yield", yield_),
    ("scf.condition", yield_),
    ("tpu.yield", yield_),
    ("func.return", yield_),
    ("stablehlo.return", yield_),
    ("func.call", call),
    ("tpu.region", region),
    ("cf.assert", assert),
    ("tpu.trace_start", nothing),
    ("tpu.trace_stop", nothing),
    ("tpu.delay", nothing),
    ("tpu.device_id", device),
];

fn nothing(_: &mut Compiler<'_>, _: &Op) -> Made {
    Ok(Box::new(|_, _| Ok(())))
}

/// One device is simulated.
fn device(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 0, 1)?;
    c.scalar_integer(c.result(op, 0)?)?;
    Ok(Box::new(|m, step| {
        m.set(step, Value::Integer(0));
        Ok(())
    }))
}

fn yield_(_: &mut Compiler<'_>, _: &Op) -> Made {
    Ok(Box::new(|m, step| {
        m.yielded = (0..step.operands.len()).map(|i| m.take(step, i)).collect();
        Ok(())
    }))
}

/// The results of `step` are what the last block yielded.
fn hand_out(m: &mut Machine<'_>, step: &Step) {
    let values = std::mem::take(&mut m.yielded);
    for (&slot, value) in step.results.iter().zip(values) {
        m.frame[slot as usize] = value;
    }
}

/// The types that the block's last operation hands back, without the first `skip`.
fn yields(c: &Compiler<'_>, op: &Op, region: usize, skip: usize, wanted: &[Type]) -> Made<()> {
    let last = op.regions[region].ops.last();
    let types: Vec<&Type> =
        last.iter().flat_map(|op| op.operands.iter().skip(skip)).map(|&v| c.ty(v)).collect();
    match types.iter().copied().eq(wanted) {
        true => Ok(()),
        false => Err("a block does not yield the types that are expected of it".into()),
    }
}

fn result_types(c: &Compiler<'_>, op: &Op) -> Vec<Type> {
    op.results.iter().map(|&value| c.ty(value).clone()).collect()
}

fn argument_types(c: &Compiler<'_>, op: &Op, region: usize) -> Vec<Type> {
    op.regions[region].arguments.iter().map(|&value| c.ty(value).clone()).collect()
}

fn regions(op: &Op, count: usize) -> Made<()> {
    match op.regions.len() == count {
        true => Ok(()),
        false => Err(format!("expected {count} regions, found {}", op.regions.len()).into()),
    }
}

fn if_(c: &mut Compiler<'_>, op: &Op) -> Made {
    regions(op, 2)?;
    if op.operands.len() != 1 || *c.operand(op, 0)? != Type::I1 {
        return Err("the condition is one i1".into());
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

fn for_(c: &mut Compiler<'_>, op: &Op) -> Made {
    regions(op, 1)?;
    let carried = result_types(c, op);
    let initial: Vec<Type> = op.operands.iter().skip(3).map(|&value| c.ty(value).clone()).collect();
    let arguments = argument_types(c, op, 0);
    if op.operands.len() < 3 || initial != carried || arguments.get(1..) != Some(&carried[..]) {
        return Err("a loop takes three bounds, and hands on values of fixed types".into());
    }
    let counter = &arguments[0];
    if (0..3).any(|i| c.ty(op.operands[i]) != counter) {
        return Err("the bounds and the counter of a loop have one type".into());
    }
    c.scalar_integer(counter)?;
    yields(c, op, 0, 0, &carried)?;
    let body = c.block(&op.regions[0])?;
    Ok(Box::new(move |m, step| {
        let [from, to, by] = [0, 1, 2].map(|i| m.integer(step, i));
        if by <= 0 {
            return Err(Stop::Fault(step.place, format!("a loop must step forward, not by {by}")));
        }
        m.yielded = (3..step.operands.len()).map(|i| m.take(step, i)).collect();
        let mut counter = from;
        while counter < to {
            m.clock.scalar();
            m.frame[body.arguments[0] as usize] = Value::Integer(counter);
            let values = std::mem::take(&mut m.yielded);
            for (&slot, value) in body.arguments[1..].iter().zip(values) {
                m.frame[slot as usize] = value;
            }
            m.run(&body)?;
            counter += by;
        }
        hand_out(m, step);
        Ok(())
    }))
}

/// A loop that has run so often does not end.
const MAX_ITERATIONS: usize = 1 << 32;

fn while_(c: &mut Compiler<'_>, op: &Op) -> Made {
    regions(op, 2)?;
    let initial: Vec<Type> = op.operands.iter().map(|&value| c.ty(value).clone()).collect();
    let results = result_types(c, op);
    let condition = op.regions[0].ops.last();
    let is_condition = condition.is_some_and(|op| {
        op.name == "scf.condition" && op.operands.first().is_some_and(|&value| *c.ty(value) == Type::I1)
    });
    if !is_condition || argument_types(c, op, 0) != initial || argument_types(c, op, 1) != results {
        return Err("a loop's blocks take and hand on values of fixed types".into());
    }
    yields(c, op, 0, 1, &results)?;
    yields(c, op, 1, 0, &initial)?;
    let (before, after) = (c.block(&op.regions[0])?, c.block(&op.regions[1])?);
    Ok(Box::new(move |m, step| {
        m.yielded = (0..step.operands.len()).map(|i| m.take(step, i)).collect();
        for _ in 0..MAX_ITERATIONS {
            m.clock.scalar();
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
        Err(Stop::Fault(step.place, format!("this loop has run {MAX_ITERATIONS} times and does not end")))
    }))
}

/// The arguments of `block` are what the last block yielded.
fn enter(m: &mut Machine<'_>, block: &Block) {
    let values = std::mem::take(&mut m.yielded);
    for (&slot, value) in block.arguments.iter().zip(values) {
        m.frame[slot as usize] = value;
    }
}

fn call(c: &mut Compiler<'_>, op: &Op) -> Made {
    let Attr::Symbol(callee) = c.attribute(op, "callee")?.clone() else {
        return Err("the attribute 'callee' is no symbol".into());
    };
    let arguments: Vec<Type> = op.operands.iter().map(|&value| c.ty(value).clone()).collect();
    let results = result_types(c, op);
    Ok(Box::new(move |m, step| {
        let code = m.program.functions.get(&callee).cloned();
        let Some(code) = code.filter(|code| code.argument_types == arguments && code.results == results)
        else {
            let message = format!("the module has no function @{callee} of these types");
            return Err(Stop::Fault(step.place, message));
        };
        let values: Vec<Value> = (0..step.operands.len()).map(|i| m.take(step, i)).collect();
        m.yielded = m.call(&code, values.into_iter())?;
        hand_out(m, step);
        Ok(())
    }))
}

/// A scope: what is allocated inside ends with it.
fn region(c: &mut Compiler<'_>, op: &Op) -> Made {
    regions(op, 1)?;
    let wanted = result_types(c, op);
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
        _ => String::new(),
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
