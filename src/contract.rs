//! The names and formats that the supervisor, the launch shell and the server meet through.
//!
//! Core only, without allocation: freestanding `gym-stamp` compiles this very file.
//!
//! A stamp is `CLOCK_REALTIME` in nanoseconds since the epoch. We write it as ASCII digits and
//! nothing else ([`Decimal`]). A server reads it with Python's `int()`, which takes more
//! ([`read_ns`]); whatever we say about a server's reading follows that.

/// Wall-clock ns at which the supervisor spawned this server's launch shell.
pub const SPAWN_NS: &str = "NEMO_GYM_STARTUP_SPAWN_NS";
/// Wall-clock ns at which setup was done and the server's interpreter was about to start.
pub const SETUP_DONE_NS: &str = "NEMO_GYM_STARTUP_SETUP_DONE_NS";
/// Wall-clock ns at which a server's main process handed off to Uvicorn.
pub const SERVE_NS: &str = "NEMO_GYM_STARTUP_SERVE_NS";
/// W3C `traceparent` of the supervisor's span for this server.
pub const TRACEPARENT: &str = "NEMO_GYM_STARTUP_TRACEPARENT";

/// A number of nanoseconds as the contract writes it: decimal ASCII digits, no leading zeros.
#[derive(Clone, Copy)]
pub struct Decimal {
    digits: [u8; Self::LEN],
    start: usize,
}

impl Decimal {
    /// The digits of the largest `u64`.
    pub const LEN: usize = 20;

    /// Formats `ns`.
    pub fn new(ns: u64) -> Self {
        let mut digits = [b'0'; Self::LEN];
        let mut start = Self::LEN;
        let mut rest = ns;
        for digit in digits.iter_mut().rev() {
            *digit = b'0' | (rest % 10) as u8;
            rest /= 10;
            start = start.saturating_sub(1);
            if rest == 0 {
                break;
            }
        }
        Self { digits, start }
    }

    /// The digits, most significant first.
    pub fn as_bytes(&self) -> &[u8] {
        self.digits.get(self.start..).unwrap_or(&self.digits)
    }
}

/// Whether `value` is a stamp as the contract writes it: ASCII digits, greater than zero.
///
/// Stricter than [`read_ns`]: a stamp that fails this is written anew.
pub fn is_stamp(value: &[u8]) -> bool {
    value.iter().all(u8::is_ascii_digit) && value.iter().any(|&digit| digit != b'0')
}

/// The nanoseconds that a server reads out of a stamp's `value`, as Python's `int()` does.
///
/// Whitespace around it, one sign, single underscores between digits and the decimal digits of any
/// script pass. `None` is what a server treats as not set: text that does not parse, more digits
/// than `int()` takes, and a number that is not greater than zero. A number past `u64` is
/// `u64::MAX`: later than any clock, which is all that a server would find out about it.
pub fn read_ns(value: &[u8]) -> Option<u64> {
    enum Seen {
        Space,
        Sign,
        Digit,
        Underscore,
        End,
    }
    let mut seen = Seen::Space;
    let mut ns: u64 = 0;
    let mut count: usize = 0;
    let mut rest = value;
    while !rest.is_empty() {
        let token;
        (token, rest) = next_token(rest)?;
        seen = match (seen, token) {
            (Seen::Space, Token::Space) => Seen::Space,
            (Seen::Space, Token::Other(b'+')) => Seen::Sign,
            (Seen::Space | Seen::Sign | Seen::Digit | Seen::Underscore, Token::Digit(digit)) => {
                ns = ns.saturating_mul(10).saturating_add(u64::from(digit));
                count = count.saturating_add(1);
                Seen::Digit
            }
            (Seen::Digit, Token::Other(b'_')) => Seen::Underscore,
            (Seen::Digit | Seen::End, Token::Space) => Seen::End,
            _ => return None,
        };
    }
    let whole = matches!(seen, Seen::Digit | Seen::End);
    (whole && count <= INT_MAX_STR_DIGITS && ns > 0).then_some(ns)
}

/// CPython's default `sys.int_info.default_max_str_digits`, leading zeros counted.
const INT_MAX_STR_DIGITS: usize = 4300;

/// What `int()` sees in a character.
enum Token {
    Space,
    Digit(u8),
    Other(u8),
}

/// The first character of `text`, and what follows it; `None` for one that no number has.
///
/// Whatever counts is looked for in its encoding: nothing needs to be decoded.
fn next_token(text: &[u8]) -> Option<(Token, &[u8])> {
    let (&byte, rest) = text.split_first()?;
    match byte {
        b'\t'..=b'\r' | b' ' => return Some((Token::Space, rest)),
        b'0'..=b'9' => return Some((Token::Digit(byte & 15), rest)),
        0..0x80 => return Some((Token::Other(byte), rest)),
        0x80.. => {}
    }
    if let Some(rest) = SPACES.iter().find_map(|&space| strip_char(text, space)) {
        return Some((Token::Space, rest));
    }
    HALVED_ZEROS.iter().find_map(|&half| {
        (0..10_u8).find_map(|digit| {
            let c = char::from_u32((u32::from(half) << 1).saturating_add(u32::from(digit)))?;
            Some((Token::Digit(digit), strip_char(text, c)?))
        })
    })
}

fn strip_char(text: &[u8], c: char) -> Option<&[u8]> {
    text.strip_prefix(c.encode_utf8(&mut [0; 4]).as_bytes())
}

/// What Python strips beyond ASCII: Unicode's White_Space.
#[rustfmt::skip]
const SPACES: [char; 19] = [
    '\u{85}', '\u{a0}', '\u{1680}', '\u{2000}', '\u{2001}', '\u{2002}', '\u{2003}', '\u{2004}',
    '\u{2005}', '\u{2006}', '\u{2007}', '\u{2008}', '\u{2009}', '\u{200a}', '\u{2028}',
    '\u{2029}', '\u{202f}', '\u{205f}', '\u{3000}',
];

/// The zeros of Unicode's decimal digits (general category Nd) beyond ASCII, as CPython 3.13 has
/// them; each is followed by its script's one to nine.
#[rustfmt::skip]
const DIGIT_ZEROS: [char; 67] = [
    '\u{660}', '\u{6f0}', '\u{7c0}', '\u{966}', '\u{9e6}', '\u{a66}', '\u{ae6}', '\u{b66}',
    '\u{be6}', '\u{c66}', '\u{ce6}', '\u{d66}', '\u{de6}', '\u{e50}', '\u{ed0}', '\u{f20}',
    '\u{1040}', '\u{1090}', '\u{17e0}', '\u{1810}', '\u{1946}', '\u{19d0}', '\u{1a80}',
    '\u{1a90}', '\u{1b50}', '\u{1bb0}', '\u{1c40}', '\u{1c50}', '\u{a620}', '\u{a8d0}',
    '\u{a900}', '\u{a9d0}', '\u{a9f0}', '\u{aa50}', '\u{abf0}', '\u{ff10}', '\u{104a0}',
    '\u{10d30}', '\u{11066}', '\u{110f0}', '\u{11136}', '\u{111d0}', '\u{112f0}', '\u{11450}',
    '\u{114d0}', '\u{11650}', '\u{116c0}', '\u{11730}', '\u{118e0}', '\u{11950}', '\u{11c50}',
    '\u{11d50}', '\u{11da0}', '\u{11f50}', '\u{16a60}', '\u{16ac0}', '\u{16b50}', '\u{1d7ce}',
    '\u{1d7d8}', '\u{1d7e2}', '\u{1d7ec}', '\u{1d7f6}', '\u{1e140}', '\u{1e2f0}', '\u{1e4f0}',
    '\u{1e950}', '\u{1fbf0}',
];

/// [`DIGIT_ZEROS`] in half the room: all of them are even.
#[allow(clippy::indexing_slicing, reason = "runs in the compiler, which reports it")]
const HALVED_ZEROS: [u16; DIGIT_ZEROS.len()] = {
    let mut halves = [0; DIGIT_ZEROS.len()];
    let mut index = 0;
    while index < halves.len() {
        let zero = DIGIT_ZEROS[index] as u32;
        halves[index] = (zero / 2) as u16;
        assert!(halves[index] as u32 * 2 == zero);
        index += 1;
    }
    halves
};

/// What a server's main process makes of its two stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MainStart {
    /// `SPAWN_NS <= SETUP_DONE_NS <= entered`: stages `venv_setup` and `interpreter_start`.
    SetupSeen {
        /// Start of `venv_setup`.
        spawn_ns: u64,
        /// End of `venv_setup`, start of `interpreter_start`.
        setup_done_ns: u64,
    },
    /// Only the spawn counts: one `interpreter_start` from it.
    SpawnSeen {
        /// Start of `interpreter_start`.
        spawn_ns: u64,
        /// Why the other stamp does not count.
        why: Ignored,
    },
    /// No stage comes of the stamps.
    Nothing {
        /// Why neither stamp counts.
        why: Ignored,
    },
}

/// Why a server ignores a stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ignored {
    /// `SPAWN_NS` is not set, or is nothing that a server reads as a time.
    NoSpawn,
    /// `SPAWN_NS` is later than the server's own clock.
    SpawnInFuture,
    /// `SETUP_DONE_NS` is not set, or is nothing that a server reads as a time.
    NoSetupDone,
    /// `SETUP_DONE_NS` is earlier than `SPAWN_NS`.
    OutOfOrder,
    /// `SETUP_DONE_NS` is later than the server's own clock.
    SetupDoneInFuture,
}

/// Reads the two stamps as a main process does whose own code starts timing at `entered_ns`.
///
/// The times are what [`read_ns`] made of the variables.
pub fn main_start(spawn_ns: Option<u64>, setup_done_ns: Option<u64>, entered_ns: u64) -> MainStart {
    let Some(spawn_ns) = spawn_ns else {
        return MainStart::Nothing { why: Ignored::NoSpawn };
    };
    if spawn_ns > entered_ns {
        return MainStart::Nothing { why: Ignored::SpawnInFuture };
    }
    let why = match setup_done_ns {
        None => Ignored::NoSetupDone,
        Some(setup_done_ns) if setup_done_ns < spawn_ns => Ignored::OutOfOrder,
        Some(setup_done_ns) if setup_done_ns > entered_ns => Ignored::SetupDoneInFuture,
        Some(setup_done_ns) => return MainStart::SetupSeen { spawn_ns, setup_done_ns },
    };
    MainStart::SpawnSeen { spawn_ns, why }
}
