//! Collectives on several devices, right and with one line of their synchronization missing or wrong.

mod support;

use octile_mosaic::{
    Float,
    interpret::{Element, Options, Outcome, SimulateError, Tensor, Trouble, simulate},
    parse,
};
use support::rates;

const DEVICES: usize = 4;
const BLOCK: &str = "memref<8x128xf32, #tpu.memory_space<any>>";
const NEAR: &str = "memref<8x128xf32, #tpu.memory_space<vmem>>";
const DMA: &str = "memref<!tpu.dma_semaphore, #tpu.memory_space<semaphore_mem>>";
const COUNT: &str = "memref<!tpu.semaphore, #tpu.memory_space<semaphore_mem>>";

/// A kernel of `steps` steps, with its arguments and body. `%me`, `%left` and `%right` are devices of a ring.
fn ring(steps: usize, scratch: usize, arguments: &str, body: &str) -> String {
    format!(
        "module {{
  func.func @k(%step: i32, {arguments}) attributes {{iteration_bounds = array<i64: {steps}>, scratch_operands = {scratch} : i64, window_params = [{{}}, {{}}]}} {{
    %c0 = arith.constant 0 : index
    %i0 = arith.constant 0 : i32
    %i1 = arith.constant 1 : i32
    %i2 = arith.constant 2 : i32
    %n = arith.constant {DEVICES} : i32
    %last = arith.constant {} : i32
    %me = tpu.device_id : i32
    %above = arith.addi %me, %i1 : i32
    %right = arith.remsi %above, %n : i32
    %below = arith.addi %me, %last : i32
    %left = arith.remsi %below, %n : i32
    %first = arith.cmpi eq, %step, %i0 : i32
{body}
    return
  }}
}}",
        DEVICES - 1
    )
}

/// `%name`, block `index` of `of`, which has `count`.
fn block(name: &str, of: &str, count: usize, index: &str) -> String {
    let all = format!("memref<{count}x8x128xf32, #tpu.memory_space<any>>");
    let one = "memref<1x8x128xf32, #tpu.memory_space<any>>";
    format!(
        "%{name}_1 = tpu.memref_slice %{of}[%{index}, %i0, %i0] : {all} -> {one}
    %{name} = tpu.memref_squeeze %{name}_1 : {one} -> {BLOCK}"
    )
}

/// `%name`, semaphore `index` of `of`, which has `count`.
fn semaphore(name: &str, of: &str, count: usize, index: &str) -> String {
    let (all, one) = (DMA.replace("<!", &format!("<{count}x!")), DMA.replace("<!", "<1x!"));
    format!(
        "%{name}_1 = tpu.memref_slice %{of}[%{index}] : {all} -> {one}
    %{name} = tpu.memref_squeeze %{name}_1 : {one} -> {DMA}"
    )
}

fn copy(from: &str, from_type: &str, to: &str, to_type: &str, semaphore: &str) -> String {
    format!(
        "tpu.enqueue_dma source(%{from} : {from_type}) target(%{to} : {to_type}) target_semaphore(%{semaphore} : {DMA})"
    )
}

fn send(from: &str, to: &str, send: &str, receive: &str, device: &str) -> String {
    format!(
        "tpu.enqueue_dma source(%{from} : {BLOCK}) target(%{to} : {BLOCK}) source_semaphore(%{send} : {DMA}) target_semaphore(%{receive} : {DMA}) device_id(%{device})"
    )
}

fn wait(semaphore: &str, of: &str) -> String {
    format!(
        "tpu.wait_dma2 semaphore(%{semaphore} : {DMA}) src(%{of} : {BLOCK}) dst(%{of} : {BLOCK}) device_id(%me)"
    )
}

fn signal(semaphore: &str, device: &str) -> String {
    format!("tpu.sem_signal %{semaphore}, %i1 device_id %{device} : {COUNT}")
}

fn lines(lines: &[String]) -> String {
    lines.iter().map(|line| format!("    {line}\n")).collect()
}

/// Waits until both neighbours have entered the kernel.
fn barrier() -> Vec<String> {
    vec![
        format!("%barrier = tpu.sem_barrier : {COUNT}"),
        signal("barrier", "left"),
        signal("barrier", "right"),
        format!("tpu.sem_wait %barrier, %i2 : {COUNT}"),
    ]
}

fn if_first(body: &[String]) -> Vec<String> {
    let mut all = vec!["scf.if %first {".to_owned()];
    all.extend_from_slice(body);
    all.push("}".to_owned());
    all
}

/// Every device ends with the blocks of all.
fn all_gather() -> Vec<String> {
    let mut prologue = barrier();
    prologue.push(block("mine", "out", DEVICES, "me"));
    prologue.push(copy("x", BLOCK, "mine", BLOCK, "local"));
    prologue.push(wait("local", "x"));
    let mut body = if_first(&prologue);
    body.extend([
        "%minus = arith.subi %me, %step : i32".to_owned(),
        "%plus = arith.addi %minus, %n : i32".to_owned(),
        "%slot = arith.remsi %plus, %n : i32".to_owned(),
        block("from", "out", DEVICES, "slot"),
        semaphore("receive", "receives", DEVICES - 1, "step"),
        send("from", "from", "send", "receive", "right"),
        wait("send", "x"),
        wait("receive", "x"),
    ]);
    body
}

fn all_gather_text(body: &[String]) -> String {
    let arguments = format!(
        "%x: {BLOCK}, %out: memref<{DEVICES}x8x128xf32, #tpu.memory_space<any>>, %local: {DMA}, %send: {DMA}, %receives: {}",
        DMA.replace("<!", &format!("<{}x!", DEVICES - 1))
    );
    ring(DEVICES - 1, 3, &arguments, &lines(body))
}

/// Every device ends with the sum of the blocks of all, through two slots in HBM.
fn all_reduce() -> Vec<String> {
    let near =
        |name: &str, of: &str| format!("%{name} = vector.load %{of}[%c0, %c0] : {NEAR}, vector<8x128xf32>");
    let mut prologue = barrier();
    prologue.extend([
        "%zero = arith.constant dense<0.000000e+00> : vector<8x128xf32>".to_owned(),
        format!(
            "tpu.vector_store %out[%c0, %c0], %zero {{strides = array<i32>}} : {NEAR}, vector<8x128xf32>,"
        ),
        block("begin", "slots", 2, "working"),
        send("x", "begin", "send", "receive", "right"),
        wait("send", "x"),
        wait("receive", "x"),
    ]);
    let mut body = vec![
        "%working = arith.remsi %step, %i2 : i32".to_owned(),
        "%receiving = arith.subi %i1, %working : i32".to_owned(),
    ];
    body.extend(if_first(&prologue));
    body.extend([
        signal("capacity", "left"),
        block("from", "slots", 2, "working"),
        block("to", "slots", 2, "receiving"),
        copy("from", BLOCK, "near", NEAR, "local"),
        format!("tpu.sem_wait %capacity, %i1 : {COUNT}"),
        send("from", "to", "send", "receive", "right"),
        wait("local", "x"),
        near("sum", "out"),
        near("part", "near"),
        "%new = arith.addf %sum, %part : vector<8x128xf32>".to_owned(),
        format!(
            "tpu.vector_store %out[%c0, %c0], %new {{strides = array<i32>}} : {NEAR}, vector<8x128xf32>,"
        ),
        wait("send", "x"),
        wait("receive", "x"),
    ]);
    body
}

fn all_reduce_text(body: &[String]) -> String {
    let arguments = format!(
        "%x: {BLOCK}, %out: {NEAR}, %slots: memref<2x8x128xf32, #tpu.memory_space<any>>, %near: {NEAR}, %local: {DMA}, %send: {DMA}, %receive: {DMA}, %capacity: {COUNT}"
    );
    ring(DEVICES, 6, &arguments, &lines(body))
}

/// Blocks that hold the device's number and the row.
fn operand() -> Tensor {
    let values = (0..DEVICES).flat_map(|device| (0..8 * 128).map(move |i| (100 * device + i / 128) as f32));
    let bytes = values.flat_map(f32::to_le_bytes).collect::<Vec<u8>>().into();
    Tensor { element: Element::Float(Float::F32), shape: vec![DEVICES, 8, 128], bytes }
}

fn try_run(text: &str) -> Result<Outcome, SimulateError> {
    let module = parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    simulate(&module, &[operand()], &Options { devices: DEVICES, ..Options::new(rates()) })
}

fn run(text: &str) -> Outcome {
    try_run(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn troubles(text: &str) -> Vec<Trouble> {
    run(text).findings.into_iter().map(|finding| finding.trouble).collect()
}

/// The body without the lines that contain `what`; there must be one.
fn without(body: &[String], what: &str) -> Vec<String> {
    let rest: Vec<String> = body.iter().filter(|line| !line.contains(what)).cloned().collect();
    assert!(rest.len() < body.len(), "no line has {what}");
    rest
}

fn replaced(body: &[String], what: &str, by: &str) -> Vec<String> {
    assert!(body.iter().any(|line| line.contains(what)), "no line has {what}");
    body.iter().map(|line| line.replace(what, by)).collect()
}

#[test]
fn an_all_gather_gives_every_device_all_blocks() {
    let outcome = run(&all_gather_text(&all_gather()));
    assert_eq!(outcome.findings, []);
    let all = operand().to_f32();
    let result = &outcome.outputs[0];
    assert_eq!(result.shape, [DEVICES, DEVICES, 8, 128]);
    for device in result.to_f32().chunks(all.len()) {
        assert_eq!(device, all);
    }
}

/// Without a barrier semaphore the compiler puts a barrier in front of the kernel: what then arrives in the
/// window of a result before its device has begun the first step is its result.
#[test]
fn a_block_may_arrive_in_the_window_of_a_result_before_the_first_step() {
    let to_window = send("x", "out", "send", "receive", "right").replacen(
        &format!("target(%out : {BLOCK})"),
        &format!("target(%out : {NEAR})"),
        1,
    );
    let body = [to_window, wait("send", "x"), wait("receive", "x")];
    let arguments = format!("%x: {BLOCK}, %out: {NEAR}, %send: {DMA}, %receive: {DMA}");
    let outcome = run(&ring(1, 2, &arguments, &lines(&body)));
    assert_eq!(outcome.findings, []);
    let mut rotated = operand().to_f32();
    rotated.rotate_right(8 * 128);
    assert_eq!(outcome.outputs[0].to_f32(), rotated);
    // Without the wait the window may be copied out before.
    let found = troubles(&ring(1, 2, &arguments, &lines(&body[..2])));
    assert!(!found.is_empty());
}

#[test]
fn a_wait_does_not_take_an_empty_dma_of_another_device_for_one_that_may_still_signal() {
    let empty = "memref<?x128xf32, #tpu.memory_space<any>>";
    let send = format!(
        "%none = tpu.memref_slice %x[%i0, %i0] <%i0> : {BLOCK} -> {empty}
    tpu.enqueue_dma source(%none : {empty}) target(%none : {empty}) source_semaphore(%send : {DMA}) target_semaphore(%local : {DMA}) device_id(%right)"
    );
    let mut body = all_gather();
    let waits = body.iter().position(|line| line.contains("semaphore(%local")).unwrap();
    body.insert(waits, send);
    assert_eq!(troubles(&all_gather_text(&body)), []);
}

#[test]
fn an_all_reduce_gives_every_device_the_sum() {
    let outcome = run(&all_reduce_text(&all_reduce()));
    assert_eq!(outcome.findings, []);
    let all = operand().to_f32();
    let blocks: Vec<&[f32]> = all.chunks(8 * 128).collect();
    for device in outcome.outputs[0].to_f32().chunks(8 * 128) {
        let sums = (0..8 * 128).map(|i| blocks.iter().map(|block| block[i]).sum::<f32>());
        assert!(device.iter().copied().eq(sums));
    }
}

fn is_race_between_devices(trouble: &Trouble) -> bool {
    match trouble {
        Trouble::DeviceRace { copy, access, area, .. } => {
            copy.device.is_some() && access.device.is_some() && area.device.is_some()
        }
        _ => false,
    }
}

#[test]
fn a_missing_capacity_signal_is_a_race_that_names_both_devices() {
    let body = without(&all_reduce(), "%capacity");
    let found = troubles(&all_reduce_text(&body));
    assert!(found.iter().any(is_race_between_devices), "{found:?}");
    let Some(Trouble::DeviceRace { copy, access, area, .. }) = found.first() else { panic!("{found:?}") };
    assert_eq!(area.buffer, "slots");
    assert_eq!(access.device, area.device);
    assert_ne!(copy.device, access.device);
}

#[test]
fn a_missing_receive_wait_is_a_race_and_leaves_the_semaphore_set() {
    let body = without(&all_gather(), "wait_dma2 semaphore(%receive");
    let found = troubles(&all_gather_text(&body));
    assert!(found.iter().any(is_race_between_devices), "{found:?}");
    let left = |trouble: &Trouble| matches!(trouble, Trouble::SemaphoreLeftOver { semaphore, device: Some(_), .. } if semaphore.starts_with("receives"));
    assert!(found.iter().any(left), "{found:?}");
}

#[test]
fn a_missing_send_wait_is_found() {
    let body = without(&all_gather(), "wait_dma2 semaphore(%send");
    let found = troubles(&all_gather_text(&body));
    assert!(
        found.iter().any(
            |trouble| matches!(trouble, Trouble::SemaphoreLeftOver { semaphore, .. } if semaphore == "send")
        ),
        "{found:?}"
    );
}

#[test]
fn a_missing_barrier_is_found_where_the_kernel_uses_one() {
    // Only the left neighbour is awaited, but the blocks go to the right one.
    let body = without(&all_gather(), &signal("barrier", "left"));
    let body = replaced(&body, "%barrier, %i2", "%barrier, %i1");
    let found = troubles(&all_gather_text(&body));
    assert!(matches!(found[0], Trouble::MissingBarrier { .. }), "{found:?}");
    // Without any barrier the compiler inserts one.
    let body = without(&all_gather(), "%barrier");
    assert_eq!(troubles(&all_gather_text(&body)), []);
}

#[test]
fn the_wrong_neighbour_is_a_deadlock_that_names_every_device() {
    let body = replaced(&all_gather(), "device_id(%right)", "device_id(%i0)");
    let found = troubles(&all_gather_text(&body));
    let Some(Trouble::DeviceDeadlock { waiting, .. }) =
        found.iter().find(|trouble| matches!(trouble, Trouble::DeviceDeadlock { .. }))
    else {
        panic!("{found:?}")
    };
    let devices: Vec<Option<usize>> = waiting.iter().map(|waiter| waiter.wait.device).collect();
    assert_eq!(devices, [Some(1), Some(2), Some(3)], "{found:?}");
    assert!(waiting.iter().all(|waiter| waiter.needed == 4096 && waiter.available == 0));
}

#[test]
fn the_wrong_semaphore_is_a_deadlock() {
    let mut body = all_gather();
    let last = body.len() - 1;
    body.insert(last, semaphore("other", "receives", DEVICES - 1, "i1"));
    let body = replaced(&body, "wait_dma2 semaphore(%receive ", "wait_dma2 semaphore(%other ");
    let found = troubles(&all_gather_text(&body));
    assert!(found.iter().any(|trouble| matches!(trouble, Trouble::DeviceDeadlock { .. })), "{found:?}");
}

#[test]
fn a_wait_that_relies_on_the_order_of_arrival_gets_a_note() {
    assert_eq!(run(&all_gather_text(&all_gather())).notes, []);
    let outcome = run(&all_gather_text(&replaced(&all_gather(), "%receives[%step]", "%receives[%i0]")));
    assert_eq!(outcome.findings, []);
    assert!(
        outcome.notes.iter().any(|note| note.message.contains("arriving in order")),
        "{:?}",
        outcome.notes
    );
}

#[test]
fn two_devices_that_write_to_a_third_race() {
    let body = replaced(&all_gather(), "device_id(%right)", "device_id(%i0)");
    let found = troubles(&all_gather_text(&replaced(&body, "%out[%slot", "%out[%i0")));
    let both = |trouble: &Trouble| matches!(trouble, Trouble::DeviceRace { copy, access, writes: true, .. } if copy.device != access.device);
    assert!(found.iter().any(both), "{found:?}");
}

#[test]
fn a_device_that_does_not_exist() {
    let body = replaced(&all_gather(), "device_id(%right)", "device_id(%above)");
    let found = troubles(&all_gather_text(&body));
    assert!(
        found.iter().any(|trouble| matches!(trouble, Trouble::NoSuchDevice { device: 4, devices: 4, .. })),
        "{found:?}"
    );
    // One device has no neighbours.
    let module = parse(&all_gather_text(&all_gather())).unwrap();
    let block = Tensor { shape: vec![8, 128], bytes: operand().bytes[..4096].to_vec().into(), ..operand() };
    let outcome = simulate(&module, &[block], &Options::new(rates())).unwrap();
    assert!(
        outcome
            .findings
            .iter()
            .any(|finding| matches!(finding.trouble, Trouble::NoSuchDevice { devices: 1, .. })),
        "{:?}",
        outcome.findings
    );
}

#[test]
fn all_devices_share_the_operation_budget() {
    let module = parse(&all_reduce_text(&all_reduce())).unwrap();
    let options = Options { devices: DEVICES, ..Options::new(rates()) };
    let all = simulate(&module, &[operand()], &options).unwrap().operations;
    let limited = Options { max_operations: all * 3 / 4, ..options };
    let outcome = simulate(&module, &[operand()], &limited).unwrap();
    let stopped = |trouble: &Trouble| matches!(trouble, Trouble::OutOfOperations { .. });
    assert!(outcome.findings.iter().any(|finding| stopped(&finding.trouble)), "{:?}", outcome.findings);
    assert!(!outcome.completed);
}

#[test]
fn sixty_four_devices_run() {
    let devices = 64;
    let text = all_gather_text(&all_gather()).replace("constant 4 :", "constant 64 :");
    let text =
        text.replace("constant 3 :", "constant 63 :").replace("<4x8x", "<64x8x").replace("<3x!", "<63x!");
    let module = parse(&text.replace("array<i64: 3>", "array<i64: 63>")).unwrap();
    let block = Tensor { shape: vec![8, 128], bytes: operand().bytes[..4096].to_vec().into(), ..operand() };
    let outcome = simulate(&module, &[block], &Options { devices, ..Options::new(rates()) }).unwrap();
    assert_eq!((outcome.findings, outcome.completed), (vec![], true));
    assert_eq!(outcome.outputs[0].shape, [64, 64, 8, 128]);
}

#[test]
fn a_device_that_fails_ends_the_run_with_its_error() {
    // A loop must not have step 0, which is the number of the first device.
    let mut body = vec!["scf.for %i = %i0 to %i1 step %me : i32 {".to_owned(), "}".to_owned()];
    body.extend(all_gather());
    let error = try_run(&all_gather_text(&body)).unwrap_err().to_string();
    assert!(error.contains("loop step must be positive"), "{error}");
    // Others were under way.
    let mut body = all_gather();
    body.extend(["scf.for %i = %i0 to %i1 step %me : i32 {".to_owned(), "}".to_owned()]);
    assert!(try_run(&all_gather_text(&body)).is_err());
}
