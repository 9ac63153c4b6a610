import sys

from horovod_opt.experiments.overhead.command import main

sys.exit(main())
