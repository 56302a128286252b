"""Messages of CUDA, data workers, several processes, the system and Python, with their causes and what to do."""

from __future__ import annotations

from .rules import FOLLOWS, LISTED, Rule

CUDA = (
    Rule(
        "cuda-memory",
        r"CUDA out of memory|CUDA error: out of memory|CUBLAS_STATUS_ALLOC_FAILED|MPS backend out of memory|OutOfMemoryError",
        "the GPU's memory does not hold the step; or another process has it (nvidia-smi)",
        "bert ... --tokens_per_part 2048: the same steps in less memory; in Transformers: per_device_train_batch_size=8 "
        "gradient_accumulation_steps=4; plan: {plan_run} -c CORPUS -v VOCAB",
    ),
    Rule(
        "cuda-device-assert",
        r"device-side assert triggered",
        "an id or label lies outside its table; the line that is named is a later one",
        "CUDA_VISIBLE_DEVICES= before the same command: on the CPU the message says which; hand that to this script",
    ),
    Rule(
        "cuda-kernel-image",
        r"no kernel image is available for execution on the device|is not compatible with the current PyTorch installation",
        "this build of torch has no code for this GPU: the GPU is too old or too new for it",
        'python -c "import torch; print(torch.cuda.get_arch_list(), torch.cuda.get_device_capability())", then install a build '
        "that lists it",
    ),
    Rule(
        "cuda-driver-old",
        r"The NVIDIA driver on your system is too old \(found version (\d+)\)|driver version is insufficient for CUDA runtime",
        "the driver is older than the CUDA that torch was built with",
        "nvidia-smi shows the CUDA it can do; update it, or install a torch built for that; till then bert ... --device cpu",
    ),
    Rule(
        "cuda-not-compiled",
        r"Torch not compiled with CUDA enabled",
        "this torch is a CPU build",
        "{check_install}; then a CUDA build of torch, or --device cpu (with_cuda=False in Python)",
    ),
    Rule(
        "cuda-no-driver",
        r"Found no NVIDIA driver on your system|No CUDA GPUs are available|CUDA driver initialization failed",
        "there is no GPU here, or this container or process does not see it",
        "nvidia-smi; echo $CUDA_VISIBLE_DEVICES; containers: docker run --gpus all; else bert ... --device cpu",
    ),
    Rule(
        "cuda-ordinal",
        r"invalid device ordinal",
        "a GPU number that is not there: numbers count from 0 among those of CUDA_VISIBLE_DEVICES",
        "{check_install} lists them; then --cuda_devices 0, or fewer --nproc_per_node",
    ),
    Rule(
        "cuda-fork",
        r"Cannot re-initialize CUDA in forked subprocess",
        "a data worker touches the GPU: a tensor is moved in the dataset or the collator",
        "move tensors in the training loop, not in __getitem__; or -w 0",
    ),
    Rule(
        "cuda-library",
        r"(lib(?:cud|cublas|nccl|nv)\S*\.so\S*): cannot open shared object file|undefined symbol: \S*(?:cu|nccl)\S*",
        "a CUDA library of torch is missing or of another version: two torch builds are mixed",
        "python -m pip uninstall -y torch && python -m pip install --force-reinstall torch; unset LD_LIBRARY_PATH",
    ),
)

WORKERS = (
    Rule(
        "worker-shared-memory",
        r"DataLoader worker \(pid\S* \S+\) is killed by signal: Bus error|"
        r"unable to (?:open|allocate|mmap) shared memory|Unexpected bus error|"
        r"Could not (?:allocate|resize) shared memory|received 0 items of ancdata|^Bus error",
        "/dev/shm is too small for the batches that workers hand over: usual in containers",
        "the same command with -w 0 (num_workers=0); or docker run --shm-size=8g; df -h /dev/shm",
    ),
    Rule(
        "worker-killed",
        r"DataLoader worker \(pid(?:\(s\))? ([\d, ]+)\) (?:is killed by signal|exited unexpectedly)",
        "a data worker ended, mostly killed for want of memory: each has a copy of the data",
        "the same command with -w 0 (num_workers=0): its own error then shows; dmesg | tail tells of kills",
    ),
    Rule(
        "worker-files",
        r"Too many open files",
        "each tensor handed over by a worker keeps a file open",
        "ulimit -n 65536, then the same command; or -w 0",
    ),
    Rule(
        "worker-pickle",
        r"(?:Can't|Cannot|Could not) (?:pickle|get) (?:local object|<?function <lambda>|<function|attribute '<lambda>)",
        "workers are started anew (spawn) and get the dataset by pickle, which a lambda or an inner function does not survive",
        "a function at the top of the module in place of the lambda; or num_workers=0",
    ),
    Rule(
        "worker-main-guard",
        r"current process has finished its bootstrapping phase",
        "each worker imports your script, which starts workers again",
        'put what runs under `if __name__ == "__main__":`; or num_workers=0',
    ),
)

PROCESSES = (
    Rule(
        "address-in-use",
        r"(?i)address already in use|EADDRINUSE",
        "the port is taken, mostly by an earlier run that still lives",
        "torchrun --standalone --nproc_per_node N ..., which takes a free one; who has it: ss -ltnp",
    ),
    Rule(
        "launch-environment",
        r"environment variable (RANK|WORLD_SIZE|MASTER_ADDR|MASTER_PORT|LOCAL_RANK) expected, but not set",
        "{1} is not set: the program was not started by a launcher",
        "torchrun --standalone --nproc_per_node 2 PROGRAM; for one process: unset WORLD_SIZE RANK",
    ),
    Rule(
        "launch-no-group",
        r"Default process group has not been initialized",
        "a call of torch.distributed before init_process_group, or in a run of one process",
        "torchrun --standalone --nproc_per_node 2 -m bert_pytorch ..., which sets it up; or guard with dist.is_initialized()",
    ),
    Rule(
        "process-group-end",
        r"destroy_process_group\(\) was not called|"
        r"[Pp]rocess ?[Gg]roup (?:has been |was )?(?:already )?(?:destroyed|shut ?down)",
        "a process left, or went on, around the end of the group; as a warning at the end it is harmless",
        "call torch.distributed.destroy_process_group() last, on every rank; look above for a rank that failed",
        FOLLOWS,
    ),
    Rule(
        "process-group-abort",
        r"terminate called without an active exception",
        "threads of torch.distributed outlived the interpreter: a run that was done counts as failed; its files are whole",
        "last in your script: from bert_pytorch.trainer.distributed import stop; stop(); `bert` and pretrain.py do so",
    ),
    Rule(
        "collective-timeout",
        r"Watchdog caught collective operation timeout|Application timeout caused pair closure|Timed out waiting \d+ms for|"
        r"ProcessGroup\w+ .*timed? ?out|Timeout waiting for key",
        "one process waited for another that hangs, is slow, or takes another way through the code",
        "py-spy dump --pid PID of each rank; for slow disks: bert ... --ddp_timeout 7200; NCCL_DEBUG=INFO names interfaces",
    ),
    Rule(
        "peer-connection",
        r"Connection (?:closed|reset) by (?:peer|remote peer)|recvValue failed|Broken pipe.*store|connectFullMesh failed|"
        r"[Cc]onnection (?:was )?refused.*(?:store|[Rr]endezvous|socket)|client socket has (?:failed|timed out)",
        "another process is gone or not reached: its own message is the cause",
        "grep -n -m3 'rank [0-9]*:\\|Error' LOG; mend that, then bert ... --resume_from_checkpoint last",
        FOLLOWS,
    ),
    Rule(
        "torchrun-child",
        r"ChildFailedError|Root Cause \(first observed failure\)",
        "torchrun's summary: the cause stands further up, where the first rank failed",
        "grep -n -m5 '\\[E-\\|Error' LOG, and hand this script the whole log: {doctor} LOG",
        FOLLOWS,
    ),
    Rule(
        "compile-compiler",
        r"InvalidCxxCompiler|No working C\+\+ compiler|Failed to find C compiler|BackendCompilerFailed|Python\.h: No such file",
        "torch.compile needs a C++ compiler and Python's headers, which are not here",
        "the same command without --torch_compile; or apt-get install g++ python3-dev",
    ),
    Rule(
        "torch-cpu-memory",
        r"DefaultCPUAllocator: (?:can't allocate memory|not enough memory)",
        "the machine's memory does not hold the step",
        "bert ... --tokens_per_part 2048, or lower -s and -hs; plan: {plan_run} -c CORPUS -v VOCAB",
    ),
)

SYSTEM = (
    Rule(
        "memory-killed",
        r"^(?:.*: line \d+: *\d+ )?Killed\b|exit(?:ed with)? (?:code|status):? *137|OOMKilled|Out of memory: Killed process|"
        r"^MemoryError|std::bad_alloc|exitcode *: *-9|Cannot allocate memory",
        "the machine's memory was full and the system ended the process",
        "bert ... --tokens_per_part 2048 -w 0, or lower -s and -hs; corpora larger than memory: --on_memory false; "
        "plan: {plan_run} -c CORPUS -v VOCAB; dmesg | tail shows the kill",
    ),
    Rule(
        "disk-full",
        r"No space left on device|Disk quota exceeded",
        "the disk, or the account's share of it, is full",
        "df -h . ; du -sh RUN/checkpoint-* ; delete what is not needed, then the same line with --resume_from_checkpoint last "
        "--save_total_limit 2",
    ),
    Rule(
        "file-permission",
        r"Permission denied: '([^'\n]*)|(?<!\S)([^\s:]{1,300}): Permission denied|(Read-only file system)",
        "{1}{2}{3}: not to be written, read or run by this account",
        "ls -ld $(dirname '{1}{2}'); name another --output_dir; scripts: python FILE",
    ),
    Rule(
        "script-path",
        r"can't open file '([^']*)'",
        "paths are taken from the working directory: {1} is not there",
        "give the script's full path, for instance {check_install}",
    ),
    Rule(
        "command-missing",
        r"\b(bert(?:-vocab)?): (?:command )?not found",
        "the commands are not installed in this environment",
        "python -m pip install --no-deps {BUNDLE}; or PYTHONPATH={BUNDLE}/src python -m bert_pytorch ...",
    ),
    Rule(
        "legacy-pickle",
        r"(?:No module named 'bert_pytorch[\w.]*'|Can't get attribute '\w+' on <module '(?:bert_pytorch|__main__)[^']*')"
        r"(?=[\s\S]{0,400}pickle|.*vocab)|(?<=pickle)[\s\S]{0,600}No module named 'bert_pytorch[\w.]*'|"
        r"No module named 'bert_pytorch\.(?:dataset|model)[\w.]*'",
        "a pickle of bert-pytorch 0.0.1a4 is opened with pickle or torch.load; it names classes of that package",
        "{convert_legacy} --vocab vocab.pkl --output_vocab vocab.json; models: {convert_legacy} --model FILE --output new.ep0",
    ),
    Rule(
        "module-bert-pytorch",
        r"No module named 'bert_pytorch'",
        "the library is not installed for this Python",
        "python -m pip install --no-deps {BUNDLE}; or PYTHONPATH={BUNDLE}/src before the command",
        LISTED,
    ),
    Rule(
        "pip-managed",
        r"externally-managed-environment",
        "the system's Python takes no packages",
        "python3 -m venv .venv && . .venv/bin/activate && python -m pip install torch tqdm pyyaml",
    ),
    Rule(
        "pip-no-match",
        r"No matching distribution found for (\S+)",
        "no build of {1} for this Python or system, or no package index is reached",
        "python --version (3.10 to 3.13 have builds of torch); python -m pip index versions {1}",
    ),
    Rule(
        "numpy-binary",
        r"compiled using NumPy 1\.x cannot be run in\s+NumPy 2|numpy\.dtype size changed",
        "packages built for NumPy 1 meet NumPy 2",
        "python -m pip install -U torch transformers; or python -m pip install 'numpy<2'",
    ),
    Rule(
        "python-old",
        r"unsupported operand type\(s\) for \|: 'type' and|requires a different Python|Python 3\.[0-9] is older than",
        "Python is older than 3.10",
        "python3.11 -m venv .venv && . .venv/bin/activate && python -m pip install torch tqdm pyyaml",
    ),
    Rule(
        "file-missing",
        r"No such file or directory: '([^']*)'",
        "{1} is not there; relative paths are taken from the working directory",
        "ls -la $(dirname '{1}'); pwd",
        LISTED,
    ),
    Rule(
        "interrupted",
        r"KeyboardInterrupt|Signal 15 \(SIGTERM\)|exitcode *: *-15",
        "the process was told to stop, by you, the cluster, or torchrun because another failed",
        "the same line with --resume_from_checkpoint last",
        FOLLOWS,
    ),
)

MACHINE = (*CUDA, *WORKERS, *PROCESSES, *SYSTEM)
