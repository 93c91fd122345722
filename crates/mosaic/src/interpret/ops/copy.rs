//! DMAs and semaphores.

use super::{Definition, OpKind, effect, pure, view::memref};
use crate::{
    interpret::{
        copies::SemaphoreId,
        finding::Agent,
        machine::{Machine, Stop},
        program::{Compiler, Made, Step},
        value::Value,
    },
    ir::Op,
    types::{MemorySpace, Type},
};

pub(super) const OPS: &[Definition] = &[
    effect("tpu.enqueue_dma", &["priority", "strict_ordering"], enqueue).kind(OpKind::StartDma),
    effect("tpu.wait_dma2", &["strict_ordering"], |c, op| wait_copy(c, op, 0, 2)).kind(OpKind::WaitDma),
    effect("tpu.wait_dma", &[], |c, op| wait_copy(c, op, 0, 1)).kind(OpKind::WaitDma),
    pure("tpu.sem_alloc", &[], allocate).kind(OpKind::Allocate),
    effect("tpu.sem_signal", &[], signal),
    effect("tpu.sem_wait", &[], wait),
    effect("tpu.sem_read", &[], read).results(1),
];

/// Checks for a semaphore of the given kind.
fn semaphore(c: &Compiler<'_>, op: &Op, number: usize, kind: &Type) -> Made<()> {
    let memref = memref(c, op, number)?;
    let single = memref.shape.iter().all(|&extent| extent == 1);
    match *memref.element == *kind && single {
        true => Ok(()),
        false => Err(format!("operand {number} must be one {kind}, not {}", c.operand(op, number)?).into()),
    }
}

fn id(m: &mut Machine<'_>, step: &Step, operand: usize) -> Result<SemaphoreId, Stop> {
    let view = m.view(step, operand).clone();
    m.inside(&view, |m| m.core_site(step))?;
    Ok((view.buffer, view.offset))
}

fn enqueue(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 3, 0)
        .and_then(|()| c.segments(op, &[&[1, 0, 1, 1, 0, 0], &[1, 0, 1, 1, 0, 0, 0]]))
        .map_err(|_| "a copy to another device or core is not supported: one core is simulated")?;
    // Neither attribute gives an ordering that a kernel may rely on without a wait.
    c.flag(op, "strict_ordering")?;
    if op.attributes.get("priority").is_some() {
        c.integer_attribute(op, "priority")?;
    }
    let (source, target) = (memref(c, op, 0)?, memref(c, op, 1)?);
    if source.element != target.element || source.shape != target.shape {
        let (from, to) = (c.operand(op, 0)?, c.operand(op, 1)?);
        return Err(format!("source {from} and target {to} differ in shape or element type").into());
    }
    c.element(c.operand(op, 0)?)?;
    semaphore(c, op, 2, &Type::DmaSemaphore)?;
    Ok(Box::new(|m, step| {
        m.clock.scalar();
        let semaphore = id(m, step, 2)?;
        let (source, target) = (m.view(step, 0).clone(), m.view(step, 1).clone());
        if source.shape() != target.shape() {
            let message = format!("copies shape {:?} to shape {:?}", source.shape(), target.shape());
            return Err(Stop::Fault(step.place, message));
        }
        let agent = Agent::Copy(m.copies.next_number());
        m.start_copy(source, target, semaphore, agent, step.place)
    }))
}

/// Waits for as many bytes as the destination memref has.
fn wait_copy(c: &mut Compiler<'_>, op: &Op, semaphore_operand: usize, target: usize) -> Made {
    semaphore(c, op, semaphore_operand, &Type::DmaSemaphore)?;
    memref(c, op, target)?;
    c.element(c.operand(op, target)?)?;
    c.arity(op, target + 1, 0)
        .and_then(|()| c.segments(op, &[&[1, 1, 1, 0, 0]]))
        .map_err(|_| "a wait for another device or core is not supported: one core is simulated")?;
    c.flag(op, "strict_ordering")?;
    Ok(Box::new(move |m, step| {
        m.clock.scalar();
        let semaphore = id(m, step, semaphore_operand)?;
        let view = m.view(step, target).clone();
        m.inside(&view, |m| m.core_site(step))?;
        let bytes = view.bytes() as i64;
        let site = m.core_site(step);
        m.wait(semaphore, bytes, site)
    }))
}

fn allocate(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 0, 1)?;
    match c.result(op, 0)? {
        Type::MemRef(memref) if matches!(*memref.element, Type::DmaSemaphore | Type::Semaphore) => {}
        other => return Err(format!("{other} is not a memref of semaphores").into()),
    }
    let shape = c.extents(c.result(op, 0)?)?;
    let name =
        op.place.map_or_else(|| "semaphore".to_owned(), |place| format!("semaphore of line {}", place.line));
    Ok(Box::new(move |m, step| {
        let view = m.allocate(&name, MemorySpace::Semaphore, &shape, None, step.place)?;
        m.set(step, Value::View(view));
        Ok(())
    }))
}

fn counted(c: &Compiler<'_>, op: &Op) -> Made<()> {
    c.arity(op, 2, 0)
        .and_then(|()| c.segments(op, &[&[1, 1, 0, 0], &[1, 1, 0, 0, 0]]))
        .map_err(|_| "a semaphore of another device or core is not supported: one core is simulated")?;
    semaphore(c, op, 0, &Type::Semaphore)?;
    c.scalar_integer(c.operand(op, 1)?)
}

/// Amount of a signal or wait.
fn amount(m: &Machine<'_>, step: &Step) -> Result<i64, Stop> {
    match m.integer(step, 1) {
        amount @ 0.. => Ok(amount),
        amount => Err(Stop::Fault(step.place, format!("semaphore amount is negative: {amount}"))),
    }
}

fn signal(c: &mut Compiler<'_>, op: &Op) -> Made {
    counted(c, op)?;
    Ok(Box::new(|m, step| {
        m.clock.scalar();
        let (id, amount, site) = (id(m, step, 0)?, amount(m, step)?, m.core_site(step));
        m.changes += 1;
        m.copies.signal(id, amount, site);
        Ok(())
    }))
}

fn wait(c: &mut Compiler<'_>, op: &Op) -> Made {
    counted(c, op)?;
    Ok(Box::new(|m, step| {
        m.clock.scalar();
        let (id, amount, site) = (id(m, step, 0)?, amount(m, step)?, m.core_site(step));
        m.wait(id, amount, site)
    }))
}

fn read(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 1, 1)?;
    semaphore(c, op, 0, &Type::Semaphore).or_else(|_| semaphore(c, op, 0, &Type::DmaSemaphore))?;
    c.scalar_integer(c.result(op, 0)?)?;
    Ok(Box::new(|m, step| {
        m.clock.scalar();
        let id = id(m, step, 0)?;
        let count = m.copies.count(id);
        m.set(step, Value::Integer(count));
        Ok(())
    }))
}
