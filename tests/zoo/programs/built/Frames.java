// Frames.java - a Java program that reaches CUDA through JNI (Frames.c): interpreted and compiled frames, threads,
// null pointers that the JVM catches as signals, a child process; one call site leaks. With ZOO_WAITS it waits for
// attach_share.sh.
// zoo: prints kept true, 1000 null pointers, 6400 rounds
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.concurrent.atomic.AtomicInteger;

public class Frames {
    static native int start();
    static native long alloc(long bytes);
    static native int free(long pointer);
    static final AtomicInteger rounds = new AtomicInteger();

    static long deep(int frames, long bytes) {
        return frames == 0 ? alloc(bytes) : deep(frames - 1, bytes);
    }

    static void work() {
        start();
        for (int i = 0; i < 400; i++)
            if (free(deep(i % 100, 4096)) == 0)
                rounds.incrementAndGet();
    }

    static void step(String done, String wanted) throws Exception {
        String folder = System.getenv("ZOO_WAITS");
        if (folder == null)
            return;
        Files.createFile(Path.of(folder, done));
        while (!Files.exists(Path.of(folder, wanted)))
            Thread.sleep(20);
    }

    public static void main(String[] arguments) throws Exception {
        System.load(System.getenv("FRAMES_LIBRARY"));
        if (start() != 0)
            System.exit(2);
        long kept = deep(60, 5 << 20);
        step("ready", "begin");
        Thread[] threads = new Thread[16];
        for (int i = 0; i < threads.length; i++)
            (threads[i] = new Thread(Frames::work)).start();
        Object nothing = null;
        int caught = 0;
        for (int i = 0; i < 1000; i++)
            try {
                nothing.hashCode();
            } catch (NullPointerException e) {
                caught++;
            }
        for (Thread thread : threads)
            thread.join();
        step("done", "end");
        System.gc();
        new ProcessBuilder("/bin/true").start().waitFor();
        System.out.println("kept " + (kept != 0) + ", " + caught + " null pointers, " + rounds + " rounds");
    }
}
