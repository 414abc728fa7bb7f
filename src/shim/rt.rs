//! The symbols that rustc assumes a runtime brings. No libc is there to bring them.

use core::panic::PanicInfo;
use core::ptr;

/// Release builds have no reachable panic (`tests/suite/binary.rs` looks); debug builds keep their
/// overflow checks, and an own error is all that can be said of one.
#[panic_handler]
fn panic(_: &PanicInfo) -> ! {
    crate::sys::exit(crate::fail::OWN_ERROR)
}

/// Named by precompiled `core`; nothing unwinds under `panic = "abort"`.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}

// Volatile accesses keep the compiler from recognising these loops and calling the very function
// that they implement. No hot path runs through them.

/// # Safety
/// As C's `memcpy`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, len: usize) -> *mut u8 {
    for i in 0..len {
        // SAFETY: the caller vouches for `len` bytes at both.
        unsafe { copy_byte(to, from, i) };
    }
    to
}

/// # Safety
/// As C's `memmove`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, len: usize) -> *mut u8 {
    if to.addr() <= from.addr() {
        // SAFETY: the caller vouches for both; upwards never overtakes a source above.
        unsafe { memcpy(to, from, len) };
    } else {
        for i in (0..len).rev() {
            // SAFETY: the caller vouches for `len` bytes at both.
            unsafe { copy_byte(to, from, i) };
        }
    }
    to
}

/// # Safety
/// `to` must be writable and `from` readable at offset `i`.
#[inline(always)]
unsafe fn copy_byte(to: *mut u8, from: *const u8, i: usize) {
    // SAFETY: the caller vouches for offset `i` of the source.
    let byte = unsafe { ptr::read_volatile(from.wrapping_add(i)) };
    // SAFETY: the caller vouches for offset `i` of the destination.
    unsafe { ptr::write_volatile(to.wrapping_add(i), byte) };
}

/// # Safety
/// As C's `memset`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, byte: i32, len: usize) -> *mut u8 {
    for i in 0..len {
        // SAFETY: the caller vouches for `len` bytes at `to`.
        unsafe { ptr::write_volatile(to.wrapping_add(i), byte as u8) };
    }
    to
}

/// # Safety
/// As C's `memcmp`.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(left: *const u8, right: *const u8, len: usize) -> i32 {
    for i in 0..len {
        // SAFETY: the caller vouches for `len` bytes at `left`.
        let a = unsafe { ptr::read_volatile(left.wrapping_add(i)) };
        // SAFETY: the caller vouches for `len` bytes at `right`.
        let b = unsafe { ptr::read_volatile(right.wrapping_add(i)) };
        if a != b {
            return i32::from(a).wrapping_sub(i32::from(b));
        }
    }
    0
}

/// # Safety
/// As C's `bcmp`.
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(left: *const u8, right: *const u8, len: usize) -> i32 {
    // SAFETY: the contract is memcmp's.
    unsafe { memcmp(left, right, len) }
}

/// # Safety
/// As C's `strlen`.
#[unsafe(no_mangle)]
unsafe extern "C" fn strlen(text: *const u8) -> usize {
    let mut len: usize = 0;
    // SAFETY: every byte before `len` was no NUL, so the string reaches this far.
    while unsafe { ptr::read_volatile(text.wrapping_add(len)) } != 0 {
        len = len.wrapping_add(1);
    }
    len
}
