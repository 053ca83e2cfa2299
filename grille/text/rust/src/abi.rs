//! What crosses the C boundary: status codes, owned buffers, and the guard around every call.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::Once;

#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Status {
    Ok = 0,
    Corrupt = 1,
    Invalid = 2,
    Panic = 3,
}

pub struct Failure {
    pub status: Status,
    pub message: String,
}

impl Failure {
    pub fn corrupt(message: impl Into<String>) -> Failure {
        Failure {
            status: Status::Corrupt,
            message: message.into(),
        }
    }
    pub fn invalid(message: impl Into<String>) -> Failure {
        Failure {
            status: Status::Invalid,
            message: message.into(),
        }
    }
}

/// A boxed slice handed to C.
#[repr(C)]
pub struct Buffer<T> {
    pub data: *mut T,
    pub size: usize,
}

pub type Bytes = Buffer<u8>;
pub type Ids = Buffer<u32>;

impl<T> Buffer<T> {
    pub fn from_vec(values: Vec<T>) -> Buffer<T> {
        let boxed = values.into_boxed_slice();
        let size = boxed.len();
        Buffer {
            data: Box::into_raw(boxed) as *mut T,
            size,
        }
    }

    /// # Safety
    /// The buffer came from `from_vec` and was not freed.
    unsafe fn free(self) {
        if !self.data.is_null() {
            drop(Box::from_raw(std::ptr::slice_from_raw_parts_mut(
                self.data, self.size,
            )));
        }
    }
}

#[no_mangle]
pub unsafe extern "C" fn grille_text_bytes_free(bytes: Bytes) {
    bytes.free();
}

#[no_mangle]
pub unsafe extern "C" fn grille_text_ids_free(ids: Ids) {
    ids.free();
}

/// # Safety
/// `data` points to `size` bytes (or size is 0).
pub unsafe fn bytes_in<'a>(data: *const u8, size: usize) -> &'a [u8] {
    if size == 0 {
        &[]
    } else {
        std::slice::from_raw_parts(data, size)
    }
}

/// # Safety
/// As `bytes_in`.
pub unsafe fn text_in<'a>(data: *const u8, size: usize) -> Result<&'a str, Failure> {
    std::str::from_utf8(bytes_in(data, size)).map_err(|e| {
        Failure::invalid(format!(
            "the text is not valid UTF-8 at byte {}",
            e.valid_up_to()
        ))
    })
}

fn panic_message(payload: &(dyn std::any::Any + Send)) -> String {
    if let Some(text) = payload.downcast_ref::<&str>() {
        (*text).to_string()
    } else if let Some(text) = payload.downcast_ref::<String>() {
        text.clone()
    } else {
        "panic".to_string()
    }
}

/// Runs `body`, turns a panic into a failure.
pub fn caught<T>(body: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    // The default hook prints; this library never does. It is this static library's own hook.
    static SILENCE: Once = Once::new();
    SILENCE.call_once(|| std::panic::set_hook(Box::new(|_| {})));
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|payload| {
        let message = panic_message(&*payload);
        // A payload whose drop panics must not get out either.
        let _ = catch_unwind(AssertUnwindSafe(move || drop(payload)));
        Err(Failure {
            status: Status::Panic,
            message,
        })
    })
}

/// The guard of every exported call: the failure's one-line message goes to `error`.
pub unsafe fn guarded(error: *mut Bytes, body: impl FnOnce() -> Result<(), Failure>) -> Status {
    match caught(body) {
        Ok(()) => {
            *error = Buffer {
                data: std::ptr::null_mut(),
                size: 0,
            };
            Status::Ok
        }
        Err(failure) => {
            let line = failure.message.replace(['\n', '\r'], " ");
            *error = Buffer::from_vec(line.into_bytes());
            failure.status
        }
    }
}

/// Runs `body` on a thread with a stack of `stack_bytes` (reserved, touched only as needed), for work
/// whose recursion depth comes from a file.
pub fn on_deep_stack<T: Send>(
    stack_bytes: usize,
    body: impl FnOnce() -> Result<T, Failure> + Send,
) -> Result<T, Failure> {
    std::thread::scope(|scope| {
        let handle = std::thread::Builder::new()
            .stack_size(stack_bytes)
            .spawn_scoped(scope, || caught(body))
            .map_err(|e| Failure {
                status: Status::Panic,
                message: format!("no thread: {e}"),
            })?;
        handle.join().unwrap_or_else(|_| {
            Err(Failure {
                status: Status::Panic,
                message: "a thread ended in a panic".into(),
            })
        })
    })
}
