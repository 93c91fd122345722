//! DMAs and semaphores.

use super::{Definition, OpKind, effect, pure, view::memref};
use crate::{
    interpret::{
        copies::SemaphoreId,
        devices::RemoteTransfer,
        finding::Agent,
        machine::{Machine, Stop},
        program::{Compiler, Made, Step},
        value::Value,
        view::View,
    },
    ir::Op,
    types::{MemorySpace, Type},
};

pub(super) const OPS: &[Definition] = &[
    effect("tpu.enqueue_dma", &["priority", "strict_ordering"], enqueue).kind(OpKind::StartDma),
    effect("tpu.wait_dma2", &["strict_ordering"], wait_copy).kind(OpKind::WaitDma),
    effect("tpu.wait_dma", &[], wait_old_copy).kind(OpKind::WaitDma),
    pure("tpu.sem_alloc", &[], allocate).kind(OpKind::Allocate),
    pure("tpu.sem_barrier", &[], barrier).kind(OpKind::Allocate),
    effect("tpu.sem_signal", &[], signal),
    effect("tpu.sem_wait", &[], wait),
    effect("tpu.sem_read", &[], read).results(1),
    pure("tpu.device_id", &[], device),
];

/// Returns whether an operation names another device, or synchronizes with all of them.
pub(in crate::interpret) fn communicates(op: &Op) -> bool {
    match op.name.as_ref() {
        "tpu.enqueue_dma" => op.operands.len() > 3,
        "tpu.sem_signal" => op.operands.len() > 2,
        "tpu.sem_barrier" => true,
        _ => false,
    }
}

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

/// The operand that names a core, if any.
fn core(c: &Compiler<'_>, op: &Op, groups: &[Option<usize>]) -> Made<Option<usize>> {
    let [core, subcore] = groups[..] else { return Err("core and subcore are expected last".into()) };
    if subcore.is_some() {
        return Err("subcores are not supported: one TensorCore per device is simulated".into());
    }
    if let Some(core) = core {
        c.scalar_integer(c.operand(op, core)?)?;
    }
    Ok(core)
}

fn enqueue(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, op.operands.len(), 0)?;
    let groups = c.groups(op, 7, &[1, 0, 1, 1])?;
    let [Some(source), send, Some(target), Some(receive), device, ..] = groups[..] else {
        return Err("a source, a target and a target semaphore are needed".into());
    };
    let core = core(c, op, &groups[5..])?;
    // Neither attribute gives an ordering that a kernel may rely on without a wait.
    c.flag(op, "strict_ordering")?;
    if op.attributes.get("priority").is_some() {
        c.integer_attribute(op, "priority")?;
    }
    let (from, to) = (memref(c, op, source)?, memref(c, op, target)?);
    if from.element != to.element || from.shape != to.shape {
        let (from, to) = (c.operand(op, source)?, c.operand(op, target)?);
        return Err(format!("source {from} and target {to} differ in shape or element type").into());
    }
    c.element(c.operand(op, source)?)?;
    semaphore(c, op, receive, &Type::DmaSemaphore)?;
    match (send, device) {
        (None, None) => Ok(Box::new(move |m, step| {
            m.clock.scalar();
            let semaphore = id(m, step, receive)?;
            let (source, target) = ends(m, step, source, target)?;
            let agent = Agent::Copy(m.copies.next_number());
            m.start_copy(source, target, semaphore, agent, step.place)
        })),
        (Some(send), Some(device)) => {
            semaphore(c, op, send, &Type::DmaSemaphore)?;
            c.scalar_integer(c.operand(op, device)?)?;
            Ok(Box::new(move |m, step| {
                m.clock.scalar();
                m.require_first_core(step, core)?;
                let to = m.target_device(step, device)?;
                let (send, receive) = (id(m, step, send)?, id(m, step, receive)?);
                let (source, target) = ends(m, step, source, target)?;
                m.start_remote_copy(to, RemoteTransfer { source, target, send, receive }, step)
            }))
        }
        _ => Err("a DMA to another device needs both a device id and a source semaphore".into()),
    }
}

/// Source and target of a DMA, which must have one shape.
fn ends(m: &Machine<'_>, step: &Step, source: usize, target: usize) -> Result<(View, View), Stop> {
    let (source, target) = (m.view(step, source).clone(), m.view(step, target).clone());
    match source.shape() == target.shape() {
        true => Ok((source, target)),
        false => {
            let message = format!("copies shape {:?} to shape {:?}", source.shape(), target.shape());
            Err(Stop::Fault(step.place, message))
        }
    }
}

fn wait_copy(c: &mut Compiler<'_>, op: &Op) -> Made {
    let groups = c.groups(op, 5, &[1, 1, 1])?;
    let [Some(semaphore), Some(_), Some(target), ..] = groups[..] else {
        return Err("a semaphore, a source and a target are needed".into());
    };
    // The device and the core that the DMA goes to do not matter: the semaphore is this device's.
    groups[3..].iter().flatten().try_for_each(|&group| c.scalar_integer(c.operand(op, group)?))?;
    wait_bytes(c, op, semaphore, target)
}

fn wait_old_copy(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 2, 0)?;
    wait_bytes(c, op, 0, 1)
}

/// Waits for as many bytes as the destination memref has.
fn wait_bytes(c: &mut Compiler<'_>, op: &Op, semaphore_operand: usize, target: usize) -> Made {
    semaphore(c, op, semaphore_operand, &Type::DmaSemaphore)?;
    memref(c, op, target)?;
    c.element(c.operand(op, target)?)?;
    c.flag(op, "strict_ordering")?;
    Ok(Box::new(move |m, step| {
        m.clock.scalar();
        let semaphore = id(m, step, semaphore_operand)?;
        // A wait accesses nothing: kernels name a slice only for its size.
        let bytes = i64::try_from(m.view(step, target).bytes()).unwrap_or(i64::MAX);
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
    let name = c.allocated_name(op).unwrap_or_else(|| {
        op.place.map_or_else(|| "semaphore".to_owned(), |place| format!("semaphore of line {}", place.line))
    });
    Ok(Box::new(move |m, step| {
        let view = m.allocate(&name, MemorySpace::Semaphore, &shape, None, step.place)?;
        m.set(step, Value::View(view));
        Ok(())
    }))
}

/// The semaphore that all devices share, by the kernel's collective id.
fn barrier(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 0, 1)?;
    match c.result(op, 0)? {
        Type::MemRef(memref) if *memref.element == Type::Semaphore && memref.shape.is_empty() => {}
        other => return Err(format!("{other} is not a memref of one semaphore").into()),
    }
    Ok(Box::new(|m, step| match m.barrier.clone() {
        Some(view) => {
            m.set(step, Value::View(view));
            Ok(())
        }
        None => Err(Stop::Fault(step.place, "there is no barrier semaphore outside a kernel".to_owned())),
    }))
}

fn device(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 0, 1)?;
    c.scalar_integer(c.result(op, 0)?)?;
    Ok(Box::new(|m, step| {
        let device = m.link.as_ref().map_or(0, |link| link.device());
        m.set(step, Value::Integer(device as i64));
        Ok(())
    }))
}

/// Amount of a signal or wait.
fn amount(m: &Machine<'_>, step: &Step) -> Result<i64, Stop> {
    match m.integer(step, 1) {
        amount @ 0.. => Ok(amount),
        amount => Err(Stop::Fault(step.place, format!("semaphore amount is negative: {amount}"))),
    }
}

fn signal(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, op.operands.len(), 0)?;
    let groups = c.groups(op, 5, &[1, 1])?;
    let [Some(_), Some(_), device, ..] = groups[..] else {
        return Err("a semaphore and an amount are needed".into());
    };
    let core = core(c, op, &groups[3..])?;
    semaphore(c, op, 0, &Type::Semaphore)?;
    c.scalar_integer(c.operand(op, 1)?)?;
    if let Some(device) = device {
        c.scalar_integer(c.operand(op, device)?)?;
    }
    Ok(Box::new(move |m, step| {
        m.clock.scalar();
        m.require_first_core(step, core)?;
        let (id, amount, site) = (id(m, step, 0)?, amount(m, step)?, m.core_site(step));
        m.changes += 1;
        let to = match (device, &m.link) {
            (Some(device), _) => m.target_device(step, device)?,
            (None, Some(link)) => link.device(),
            (None, None) => {
                m.copies.signal(id, amount, site);
                return Ok(());
            }
        };
        m.signal_device(to, id, amount, step)
    }))
}

fn wait(c: &mut Compiler<'_>, op: &Op) -> Made {
    c.arity(op, 2, 0)?;
    semaphore(c, op, 0, &Type::Semaphore)?;
    c.scalar_integer(c.operand(op, 1)?)?;
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
        // A loop that polls the semaphore must let the other devices run.
        m.yield_turn()?;
        let count = m.copies.count(id);
        m.set(step, Value::Integer(count));
        Ok(())
    }))
}
