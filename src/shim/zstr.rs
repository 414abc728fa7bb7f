//! Strings and vectors of strings in the form that `execve` takes them.

use core::cell::Cell;
use core::ffi::CStr;
use core::marker::PhantomData;
use core::ptr::NonNull;

use crate::bytes::holds;

/// A NUL-terminated string that nobody changes for `'a`: one pointer wide, so that an array of
/// them is what the kernel calls a vector.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub struct ZStr<'a>(NonNull<u8>, PhantomData<&'a [u8]>);

impl<'a> ZStr<'a> {
    pub const fn new(text: &'a CStr) -> Self {
        Self(NonNull::from_ref(text).cast(), PhantomData)
    }

    /// The string at the start of `bytes`; `None` if no NUL ends it.
    pub fn in_bytes(bytes: &'a [u8]) -> Option<Self> {
        holds(0, bytes).then_some(Self(NonNull::from_ref(bytes).cast(), PhantomData))
    }

    pub const fn as_ptr(self) -> *const u8 {
        self.0.as_ptr().cast_const()
    }

    /// The bytes before the NUL.
    pub fn bytes(self) -> &'a [u8] {
        // SAFETY: a `ZStr` is NUL-terminated and unchanged for `'a`, by construction.
        unsafe { CStr::from_ptr(self.as_ptr().cast()) }.to_bytes()
    }

    /// What follows `prefix`, if the string begins with it; no string does with one that has a NUL.
    ///
    /// Reads no further than the first difference: an environment may hold strings of 128 KiB.
    pub fn strip_prefix(self, prefix: &[u8]) -> Option<Self> {
        let mut at = self.0;
        for &byte in prefix {
            // SAFETY: every byte before `at` equalled one that is not NUL, so the string has not
            // ended before `at`.
            if byte == 0 || unsafe { at.read() } != byte {
                return None;
            }
            // SAFETY: the byte at `at` is not the NUL, so the string goes on behind it.
            at = unsafe { at.add(1) };
        }
        Some(Self(at, PhantomData))
    }
}

/// A NULL-terminated vector of strings, edited where it stands.
pub struct Vector<'a> {
    /// Invariant: `start + len` is an index of it, and that slot is `None`.
    slots: &'a mut [Option<ZStr<'a>>],
    start: usize,
    len: usize,
}

/// There is no slot left for another string.
pub struct Full;

/// What takes the last [`Vector::set`] back.
pub enum Undo<'a> {
    Replaced { at: usize, entry: ZStr<'a> },
    Appended,
}

impl<'a> Vector<'a> {
    /// The vector that begins at the first slot, ends before the first `None`, and may grow into
    /// the slots behind. `None` if no slot is `None`.
    pub fn new(slots: &'a mut [Option<ZStr<'a>>]) -> Option<Self> {
        let len = slots.iter().position(Option::is_none)?;
        Some(Self { slots, start: 0, len })
    }

    /// For `execve`: this many strings from here, then a NULL.
    pub fn as_ptr(&self) -> *const Option<ZStr<'a>> {
        self.slots.as_ptr().wrapping_add(self.start)
    }

    pub fn iter(&self) -> impl Iterator<Item = ZStr<'a>> {
        self.slots.get(self.start..).unwrap_or_default().iter().map_while(|&slot| slot)
    }

    pub fn get(&self, index: usize) -> Option<ZStr<'a>> {
        if index < self.len { *self.slots.get(self.start.wrapping_add(index))? } else { None }
    }

    /// Drops the first `count` strings; [`Self::push_front`] may use their slots again.
    pub fn skip(&mut self, count: usize) {
        let count = count.min(self.len);
        self.start = self.start.wrapping_add(count);
        self.len = self.len.wrapping_sub(count);
    }

    pub fn push_front(&mut self, text: ZStr<'a>) -> Result<(), Full> {
        let start = self.start.checked_sub(1).ok_or(Full)?;
        *self.slots.get_mut(start).ok_or(Full)? = Some(text);
        self.start = start;
        self.len = self.len.wrapping_add(1);
        Ok(())
    }

    /// Puts `text` in place of the first string.
    pub fn replace_front(&mut self, text: ZStr<'a>) {
        self.put(0, text);
    }

    /// The value of the environment variable `name`: the first duplicate's, as `getenv` has it.
    pub fn value(&self, name: &str) -> Option<ZStr<'a>> {
        self.iter().find_map(|entry| value_of(entry, name))
    }

    /// Sets the environment variable `name` with `entry` (`NAME=value`): where it first stands,
    /// dropping its duplicates, else at the end.
    ///
    /// The returned [`Undo`] brings no duplicate back. It need not: it is for an environment that
    /// has grown too large, and one that lost a duplicate of a stamp has shrunk.
    pub fn set(&mut self, name: &str, entry: ZStr<'a>) -> Result<Undo<'a>, Full> {
        let found = self.iter().enumerate().find(|&(_, old)| value_of(old, name).is_some());
        let Some((at, old)) = found else {
            self.push(entry)?;
            return Ok(Undo::Appended);
        };
        let duplicates = at.wrapping_add(1);
        self.remove_from(duplicates, name);
        self.put(at, entry);
        Ok(Undo::Replaced { at, entry: old })
    }

    /// Removes every duplicate of the environment variable `name`.
    pub fn unset(&mut self, name: &str) {
        self.remove_from(0, name);
    }

    pub fn undo(&mut self, undo: Undo<'a>) {
        match undo {
            Undo::Replaced { at, entry } => self.put(at, entry),
            Undo::Appended => {
                let last = self.len.saturating_sub(1);
                if let Some(slot) = self.slots.get_mut(self.start.wrapping_add(last)) {
                    *slot = None;
                    self.len = last;
                }
            }
        }
    }

    fn push(&mut self, text: ZStr<'a>) -> Result<(), Full> {
        let end = self.start.wrapping_add(self.len);
        match self.slots.get_mut(end..).ok_or(Full)? {
            [slot, terminator, ..] => {
                *slot = Some(text);
                *terminator = None;
                self.len = self.len.wrapping_add(1);
                Ok(())
            }
            _ => Err(Full),
        }
    }

    fn put(&mut self, at: usize, text: ZStr<'a>) {
        if let Some(slot @ Some(_)) = self.slots.get_mut(self.start.wrapping_add(at)) {
            *slot = Some(text);
        }
    }

    fn remove_from(&mut self, first: usize, name: &str) {
        let slots = self.slots.get_mut(self.start.wrapping_add(first)..).unwrap_or_default();
        let slots = Cell::from_mut(slots).as_slice_of_cells();
        let mut kept = slots.iter();
        let mut len = first;
        for entry in slots.iter().map_while(Cell::get) {
            if value_of(entry, name).is_some() {
                continue;
            }
            if let Some(slot) = kept.next() {
                slot.set(Some(entry));
                len = len.wrapping_add(1);
            }
        }
        // Behind the last kept string stands the terminator, or one that was removed.
        if let Some(slot) = kept.next() {
            slot.set(None);
            self.len = len;
        }
    }
}

fn value_of<'a>(entry: ZStr<'a>, name: &str) -> Option<ZStr<'a>> {
    entry.strip_prefix(name.as_bytes())?.strip_prefix(b"=")
}
