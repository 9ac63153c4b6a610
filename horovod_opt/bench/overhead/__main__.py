import sys

from horovod_opt.bench.overhead.overhead_suite import main

sys.exit(main())
