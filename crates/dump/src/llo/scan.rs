//! Splits a listing into bundles and slots in one pass. Operands stay spans: most are never read.

use memchr::memmem;

use super::{Allocation, Bundle, Label, Listing, RegionMark, Slot};
use crate::source::{Damage, LineIndex, Span, byte_set};

/// Reads a whole listing.
pub(super) fn scan(text: &str) -> Listing<'_> {
    let mut scanner = Scanner {
        text,
        bytes: text.as_bytes(),
        at: 0,
        foreign: false,
        listing: Listing {
            text,
            lines: LineIndex::default(),
            bundles: Vec::new(),
            slots: Vec::new(),
            allocations: Vec::new(),
            damage: Vec::new(),
        },
    };
    if u32::try_from(text.len()).is_err() {
        scanner.damage(0, "the file is larger than 4 GiB");
        return scanner.listing;
    }
    scanner.listing.lines = LineIndex::new(text);
    scanner.lines();
    scanner.check_sequence();
    scanner.check_end();
    scanner.listing
}

/// The regions named in a trailer such as `/* Start region 3 :: Start/End empty region 4 :: End region 5 */`.
pub(super) fn region_marks(trailer: &str) -> impl Iterator<Item = RegionMark> {
    let inner = trailer.trim().trim_start_matches("/*").trim_end_matches("*/");
    inner.split("::").filter_map(|part| {
        let (what, number) = part.trim().rsplit_once(' ')?;
        let (starts, ends) = match what {
            "Start region" => (true, false),
            "End region" => (false, true),
            "Start/End empty region" => (true, true),
            _ => return None,
        };
        let region = number.parse().ok()?;
        Some(RegionMark { region, starts, ends })
    })
}

/// End of the comment that opens at `at`, with nested ones; `None` if it never closes.
pub(super) fn skip_comment(bytes: &[u8], at: usize) -> Option<usize> {
    let mut depth = 1usize;
    let mut at = at + 2;
    loop {
        at += memchr::memchr2(b'/', b'*', bytes.get(at..)?)?;
        match (bytes.get(at), bytes.get(at + 1)) {
            (Some(b'/'), Some(b'*')) => depth += 1,
            (Some(b'*'), Some(b'/')) => depth -= 1,
            _ => {
                at += 1;
                continue;
            }
        }
        at += 2;
        if depth == 0 {
            return Some(at);
        }
    }
}

struct Scanner<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    /// Whether the previous line was unreadable too, so that a run of them is one report.
    foreign: bool,
    listing: Listing<'a>,
}

struct Header {
    address: u32,
    label: Option<Label>,
    depth: u16,
    /// Offset of the byte after the opening brace.
    body: usize,
}

impl<'a> Scanner<'a> {
    fn damage(&mut self, at: usize, what: impl Into<String>) {
        let place = self.listing.lines.place(Span::new(at, at).start);
        let what = what.into();
        self.listing.damage.push(Damage { place, what });
    }

    fn peek(&self, at: usize) -> u8 {
        self.bytes.get(at).copied().unwrap_or_default()
    }

    fn line_end(&self, from: usize) -> usize {
        let rest = self.bytes.get(from..).unwrap_or_default();
        memchr::memchr(b'\n', rest).map_or(self.bytes.len(), |newline| from + newline)
    }

    fn lines(&mut self) {
        while self.at < self.bytes.len() {
            let end = self.line_end(self.at);
            let line = Span::new(self.at, end).of(self.text);
            if let Some(header) = self.header(self.at, end) {
                self.bundle(self.at, &header);
                self.foreign = false;
            } else {
                self.plain_line(line);
                self.at = end + 1;
            }
        }
    }

    /// A line outside bundles: the key, the allocation table, statements of an unscheduled listing.
    fn plain_line(&mut self, line: &str) {
        let trimmed = line.trim();
        let known = match trimmed.as_bytes().first() {
            None => return,
            Some(b'#') => match allocation(trimmed) {
                Some(mut allocation) => {
                    allocation.place = self.listing.lines.place(Span::new(self.at, self.at).start);
                    self.listing.allocations.push(allocation);
                    true
                }
                None => false,
            },
            Some(b'%' | b'$' | b'}') => true,
            Some(_) => trimmed.starts_with("= control") || trimmed.starts_with("//") || is_key(trimmed),
        };
        if !known && !self.foreign {
            self.damage(self.at, "this is no line of an LLO listing");
        }
        self.foreign = !known;
    }

    /// `  0x14 LB: > {`, if the line begins like that.
    fn header(&self, start: usize, end: usize) -> Option<Header> {
        let line = self.bytes.get(start..end)?;
        let first = line.iter().position(|b| !b.is_ascii_whitespace())?;
        if line.get(first) != Some(&b'0') {
            return None;
        }
        let text = self.text.get(start + first..end)?;
        let digits = text.find([' ', '\t', ':'])?;
        let number = text.get(..digits)?;
        let address = match number.strip_prefix("0x") {
            Some(hex) => u32::from_str_radix(hex, 16).ok()?,
            None => number.parse().ok()?,
        };
        let (middle, rest) = text.get(digits..)?.split_once(':')?;
        let label = middle.trim().trim_end_matches('+');
        let label = if label.is_empty() { None } else { Some(parse_label(label)?) };
        let opened = rest.find('{')?;
        let marks = rest.get(..opened)?.trim();
        if marks.bytes().any(|b| b != b'>' && b != b' ') {
            return None;
        }
        let depth = marks.bytes().filter(|&b| b == b'>').count();
        Some(Header {
            address,
            label,
            depth: u16::try_from(depth).unwrap_or(u16::MAX),
            body: end - rest.len() + opened + 1,
        })
    }

    /// Reads slots up to the closing brace, and the trailer after it.
    fn bundle(&mut self, start: usize, header: &Header) {
        let first_slot = self.listing.slots.len();
        let closed = self.slots(header.body);
        let end = self.at;
        let trailer = if closed { self.trailer() } else { Span::default() };
        let start = start + self.text.get(start..).map_or(0, |t| t.len() - t.trim_start().len());
        self.listing.bundles.push(Bundle {
            address: header.address,
            label: header.label,
            depth: header.depth,
            span: Span::new(start, end),
            trailer,
            slots: (first_slot as u32, self.listing.slots.len() as u32),
        });
    }

    /// The next byte that can end a slot or begin a comment, or the end of the text.
    fn next_structural(&self, at: usize) -> usize {
        const STRUCTURAL: [bool; 256] = byte_set(b"/;{}\n");
        let rest = self.bytes.get(at..).unwrap_or_default();
        let skipped = rest.iter().position(|&byte| STRUCTURAL[byte as usize]);
        at + skipped.unwrap_or(rest.len())
    }

    /// Moves `at` past the closing brace; returns whether there was one.
    fn slots(&mut self, body: usize) -> bool {
        let mut slot_start = body;
        let mut braces = 0usize;
        let mut at = body;
        loop {
            at = self.next_structural(at);
            match self.peek(at) {
                b'/' if self.peek(at + 1) == b'*' => match skip_comment(self.bytes, at) {
                    Some(after) => {
                        at = after;
                        continue;
                    }
                    None => {
                        self.damage(at, "this comment is never closed");
                        self.slot(slot_start, at);
                        self.at = self.bytes.len();
                        return false;
                    }
                },
                b';' if self.peek(at + 1) == b';' => {
                    self.slot(slot_start, at);
                    slot_start = at + 2;
                    at += 1;
                }
                b'{' => braces += 1,
                b'}' if braces == 0 => {
                    self.slot(slot_start, at);
                    self.at = at + 1;
                    return true;
                }
                b'}' => braces -= 1,
                b'\n' => {
                    self.damage(at, "the line ends inside a bundle");
                    self.slot(slot_start, at);
                    self.at = at + 1;
                    return false;
                }
                0 if at >= self.bytes.len() => {
                    self.damage(at, "the file ends inside a bundle");
                    self.slot(slot_start, at);
                    self.at = at;
                    return false;
                }
                _ => {}
            }
            at += 1;
        }
    }

    /// The rest of the line after a bundle; a comment in it may span lines.
    fn trailer(&mut self) -> Span {
        let start = self.at;
        loop {
            let end = self.line_end(self.at);
            let rest = self.bytes.get(self.at..end).unwrap_or_default();
            let Some(comment) = memmem::find(rest, b"/*") else {
                self.at = end + 1;
                return Span::new(start, end);
            };
            let comment = self.at + comment;
            let Some(after) = skip_comment(self.bytes, comment) else {
                self.damage(comment, "this comment is never closed");
                self.at = self.bytes.len();
                return Span::new(start, self.at);
            };
            self.at = after;
        }
    }

    /// `%s5_s1 = sadd.s32 1, %s4_s0`
    fn slot(&mut self, start: usize, end: usize) {
        let Some(text) = self.text.get(start..end) else {
            return;
        };
        let start = start + (text.len() - text.trim_start().len());
        let text = text.trim();
        if text.is_empty() {
            return;
        }
        let end = start + text.len();
        let name_len = text.bytes().take_while(|byte| *byte != b' ').count();
        let assigns =
            text.starts_with('%') && text.get(name_len..).is_some_and(|rest| rest.starts_with(" = "));
        let (result, op_start) = match assigns {
            true => (Span::new(start, start + name_len), start + name_len + 3),
            false => (Span::default(), start),
        };
        let op_bytes = self.bytes.get(op_start..end).unwrap_or_default();
        let is_op = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
        let op_len = op_bytes.iter().take_while(|b| is_op(b)).count();
        if op_len == 0 {
            self.damage(op_start, "an operation is expected here");
        }
        let op_end = op_start + op_len;
        self.listing.slots.push(Slot {
            result,
            op: Span::new(op_start, op_end),
            args: Span::new(op_end, end),
        });
    }

    /// Reports gaps in the bundle numbers: part of the listing is missing.
    fn check_sequence(&mut self) {
        let bundles = &self.listing.bundles;
        let expected = |i: usize| {
            i.checked_sub(1).and_then(|p| bundles.get(p)).map_or(Some(0), |p| p.address.checked_add(1))
        };
        let gap = (0..bundles.len()).find(|&i| bundles.get(i).map(|b| b.address) != expected(i));
        if let Some((i, bundle)) = gap.and_then(|i| Some((i, *bundles.get(i)?))) {
            let expected = expected(i).unwrap_or_default();
            let what = format!(
                "bundle {:#x} follows where {expected:#x} is expected: bundles are missing",
                bundle.address
            );
            self.damage(bundle.span.start as usize, what);
        }
    }

    /// A complete listing ends with its outermost region or an exit bundle; delay slots and an empty region
    /// may follow.
    fn check_end(&mut self) {
        const TAIL: usize = 32;
        if self.listing.bundles.is_empty() {
            if self.listing.allocations.is_empty() && self.listing.damage.is_empty() {
                self.damage(0, "there is no bundle in this file");
            }
            return;
        }
        let ends = |bundle: &Bundle| {
            let trailer = bundle.trailer.of(self.text);
            let outermost = region_marks(trailer).any(|mark| mark.ends && mark.region == 0);
            outermost || trailer.contains("exit bundle")
        };
        if !self.listing.bundles.iter().rev().take(TAIL).any(ends) {
            let what = "the listing ends before its outermost region does: it is cut off";
            self.damage(self.bytes.len(), what);
        }
    }
}

fn is_key(line: &str) -> bool {
    line.split_once(':').is_some_and(|(label, _)| parse_label(label).is_some())
}

fn parse_label(text: &str) -> Option<Label> {
    Some(match text {
        "LH" => Label::LoopHeader,
        "LB" => Label::LoopBody,
        "LE" => Label::LoopExit,
        "PB" => Label::PredicatedBody,
        "PF" => Label::PredicatedFallthrough,
        "CT" => Label::ControlTarget,
        _ => return None,
    })
}

/// `#allocation2 [shape = 'u32[]', space=smem, size = 0x4, offset = 0x48, fixed_abs, tag = '...']`
fn allocation(line: &str) -> Option<Allocation> {
    let (name, rest) = line.split_once('[')?;
    let quoted = |key: &str| {
        let after = rest.split_once(key)?.1.trim_start().strip_prefix('=')?.trim_start();
        after.strip_prefix('\'')?.split_once('\'').map(|(value, _)| value.to_owned())
    };
    let bare = |key: &str| {
        let after = rest.split_once(key)?.1.trim_start().strip_prefix('=')?.trim_start();
        after.split([',', ']']).next().map(str::trim)
    };
    let size = bare(" size")?;
    let size =
        size.strip_prefix("0x").map_or_else(|| size.parse().ok(), |hex| u64::from_str_radix(hex, 16).ok())?;
    Some(Allocation {
        name: name.trim().to_owned(),
        shape: quoted("shape")?,
        space: bare(" space")?.to_owned(),
        size,
        tag: quoted(" tag").unwrap_or_default(),
        place: crate::Place { line: 1, column: 1 },
    })
}
