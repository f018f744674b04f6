// pool.rs - a Rust program over the runtime API: a generic, a closure, a thread; three call sites that leak.
// zoo: prints sum 2096128
use std::os::raw::{c_int, c_void};
extern "C" {
    fn cudaMalloc(p: *mut *mut c_void, n: usize) -> c_int;
    fn cudaFree(p: *mut c_void) -> c_int;
    fn cudaMemcpy(to: *mut c_void, from: *const c_void, n: usize, kind: c_int) -> c_int;
}

struct Buffer(*mut c_void);
unsafe impl Send for Buffer {}

#[inline(never)]
fn take(n: usize) -> Buffer {
    let mut p: *mut c_void = std::ptr::null_mut();
    assert_eq!(unsafe { cudaMalloc(&mut p, n) }, 0);
    Buffer(p)
}

impl Drop for Buffer {
    fn drop(&mut self) {
        assert_eq!(unsafe { cudaFree(self.0) }, 0);
    }
}

struct Pool<T> {
    items: Vec<T>,
}
impl<T: Clone> Pool<T> {
    #[inline(never)]
    fn grow(&mut self, n: usize) -> Buffer {
        std::hint::black_box(&self.items);
        take(n * std::mem::size_of::<T>())
    }
}

fn main() {
    let host: Vec<u32> = (0..2048).collect();
    let mut back = vec![0u32; 2048];
    let mut pool: Pool<[u8; 16]> = Pool { items: vec![[0; 16]] };
    let there = pool.grow(1 << 16);
    unsafe {
        assert_eq!(cudaMemcpy(there.0, host.as_ptr() as *const c_void, 8192, 1), 0);
        assert_eq!(cudaMemcpy(back.as_mut_ptr() as *mut c_void, there.0, 8192, 2), 0);
    }
    std::mem::forget(there);
    for i in 1..50usize {
        drop(take(i * 1000));
    }
    let worker = std::thread::spawn(|| std::mem::forget(take(5 << 20)));
    worker.join().unwrap();
    let hold = |n: usize| std::mem::forget(take(n * 3));
    hold(1 << 20);
    println!("sum {}", back.iter().sum::<u32>());
}
