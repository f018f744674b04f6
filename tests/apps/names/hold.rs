// hold.rs - leaks in Rust: a method of a generic type, a trait's method, closures, a thread, a module with letters
// beyond ASCII.
use std::os::raw::{c_int, c_void};
extern "C" {
    fn cudaMalloc(p: *mut *mut c_void, n: usize) -> c_int;
}

#[inline(never)]
fn take(n: usize) {
    let mut p: *mut c_void = std::ptr::null_mut();
    unsafe {
        cudaMalloc(&mut p, n);
    }
    std::hint::black_box(p);
}

struct Pool<T> {
    items: Vec<T>,
}
impl<T: Clone> Pool<T> {
    #[inline(never)]
    fn grow(&mut self, n: usize) {
        take(n * std::mem::size_of::<T>());
        std::hint::black_box(&self.items);
    }
}

trait Buffer {
    fn fill(&self, n: usize);
}
impl Buffer for [u8; 16] {
    #[inline(never)]
    fn fill(&self, n: usize) {
        take(n * 16);
        std::hint::black_box(self);
    }
}

mod métal {
    #[inline(never)]
    pub fn répète(n: usize) {
        super::take(n);
        std::hint::black_box(n);
    }
}

fn main() {
    let mut pool: Pool<[u8; 16]> = Pool { items: vec![[0; 16]] };
    pool.grow(1 << 16);
    let buffer: Box<dyn Buffer> = Box::new([0u8; 16]);
    buffer.fill(1 << 17);
    métal::répète(4 << 20);
    std::thread::spawn(|| take(5 << 20)).join().unwrap();
}
