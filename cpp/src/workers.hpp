// Threads for runs that nobody waits for yet.
#pragma once

#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

namespace trtdsl {

// Does work in its order, in threads that are made as work comes: at most `most` of them, or as many as there is work for
// where that is 0.
template <typename Result>
class Workers {
public:
    using Work = std::packaged_task<Result()>;

    explicit Workers(std::size_t most) : most_(most) {}
    Workers(Workers const&) = delete;
    Workers& operator=(Workers const&) = delete;
    ~Workers() { finish(); }

    // Throws what the standard library throws where there is no memory, or no thread for it.
    void add(Work work) {
        std::lock_guard<std::mutex> const lock(mutex_);
        if (waiting_.size() >= idle_ && (most_ == 0 || threads_.size() < most_)) threads_.emplace_back([this] { serve(); });
        waiting_.push_back(std::move(work));
        changed_.notify_one();
    }

    // Does what waits, and ends the threads.
    void finish() {
        {
            std::lock_guard<std::mutex> const lock(mutex_);
            ending_ = true;
        }
        changed_.notify_all();
        for (auto& thread : threads_) thread.join();
        threads_.clear();
    }

private:
    void serve() {
        std::unique_lock<std::mutex> lock(mutex_);
        while (true) {
            ++idle_;
            changed_.wait(lock, [this] { return ending_ || !waiting_.empty(); });
            --idle_;
            if (waiting_.empty()) return;
            auto work = std::move(waiting_.front());
            waiting_.pop_front();
            lock.unlock();
            work();
            work = Work();  // its feeds go before it counts as idle
            lock.lock();
        }
    }

    std::size_t const most_;
    std::mutex mutex_;
    std::condition_variable changed_;
    std::deque<Work> waiting_;
    std::vector<std::thread> threads_;
    std::size_t idle_ = 0;  // threads that wait for work
    bool ending_ = false;
};

}  // namespace trtdsl
